"""Faults: what an experiment can ask to go wrong, and what the records of a run prove of it.

Each kind of fault is one module with one class, which declares all that is particular to the kind, and one entry in
`registry`. Everything else asks the class: the schema, the API server's rules, the rights of a run, the tables of the
documentation, and `records`, which decides whether a fault of a run has tested anything.
"""
