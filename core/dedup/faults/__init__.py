"""Faults: the kinds that an experiment can ask for, and what the records of a run prove about them.

Each kind of fault is one module with one class, which declares all facts about the kind, and one entry in `registry`.
The schema, the API server's rules, the rights of a run, and the tables of the documentation are made from the class.
`records` decides whether a fault of a run has tested anything.
"""
