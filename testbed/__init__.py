"""What runs the product without users: a Kubernetes of packages, images for it, scripted worlds, campaigns.

It is neither a test nor part of the product. Tests, benches and `make` use it; it imports the product, never tests.

- cluster: etcd, an API server, nodes that run pods, built from package registries. images: Kafka and Pulsar for it.
- strimzi: the definitions of Strimzi's own kinds. requests, pods, helm: requests to a cluster.
- specs: a small valid experiment, and ways to change it.
- worlds: a fake cluster and simulated controllers; played: the same controllers on a real API server.
- cycles: faults injected and healed again and again, their injectors killed at random.
- campaign: each request of the operator broken once each way. kill_leader: a leader killed in a cluster, by hand.
"""
