"""S4's table of Kafka and Pulsar, claim by claim, from runs that are kept: `make kafka-and-pulsar`."""
