"""S0's four tables, made again: its settings, our figures beside its own, in batches that are kept one by one."""
