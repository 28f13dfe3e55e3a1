"""The local lab: real brokers as processes of this machine, each under a keeper that ends with its owner."""
