"""A Kubernetes of our own, from package registries alone: processes, namespaces, nodes and images."""
