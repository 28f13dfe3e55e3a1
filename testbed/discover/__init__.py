"""A soak: explorations of current clients and brokers, one after the other, and a ledger of what they have seen."""
