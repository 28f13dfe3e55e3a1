"""A service with effects outside of Kafka, as it is tested: its payment service, its database, and what came of it."""
