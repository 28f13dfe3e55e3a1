"""The runners: what does the work of a run, as processes here and in pods on Kubernetes.

A *producer* writes rising integers and records what it was told of each; a *consumer* reads everything back; a *chaos*
process breaks something in between and heals it. The three know each other only through files in the run's folder and
one small socket protocol (`triggers`). What they write is the history (`dedup.history.histories`): the product.
"""
