"""Break every request of the operator once each way, and see whether each course ends as a calm one does."""
