"""What runs the product without users: a Kubernetes of packages, images for it, scripted worlds, campaigns.

It is no test and no part of the product. Tests, benches and `make` use it; it imports the product, never tests.

- cluster: etcd, an API server, nodes that run pods, built from package registries. images: Kafka and Pulsar for it.
- strimzi: the definitions of Strimzi's own kinds. requests, pods, helm: what is asked of a cluster.
- specs: a small experiment that is right, and ways to change it.
- worlds: a fake cluster, and a player who does what controllers would; played: the same player on a real API server.
- campaign: each request of the operator broken once each way. kill_leader: a leader killed in a cluster, by hand.
"""
