"""What every program of ours has in common: it leaves with its parent, and says what a machine refuses."""
