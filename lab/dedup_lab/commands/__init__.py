"""Commands of `dedup` that have a module of their own; `dedup_lab.cli` registers them."""
