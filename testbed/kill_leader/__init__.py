"""kafka-kill-leader in a cluster, driven by hand."""
