"""What `dedup` asks of a Kubernetes cluster: the results of an experiment, and its logs."""
