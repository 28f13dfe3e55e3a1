"""Kafka and Pulsar as processes of this machine: their jars, their keepers, the proxy before them."""
