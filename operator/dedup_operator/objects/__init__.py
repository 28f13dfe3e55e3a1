"""The objects of which an experiment consists in a cluster, as pure functions from its specification.

Nothing here talks to a cluster. Each module returns objects as Kubernetes reads them, from the experiment and a few
settings of the administrator's; so they can be printed, read and applied by hand (`python -m dedup_operator.objects`,
docs/run-by-hand.md), and the operator applies the very same ones.

- names: what objects are called, and by which labels they are found;
- settings: what an experiment does not say: images, where histories go, how large things are;
- systems: a system under test, as values for its chart, and the endpoints that its release will have;
- credentials: the Secrets that it names, and how pods see them;
- accounts: who may do what;
- readiness: the proof that a system is ready, a Job;
- runs: one attempt of one run, a Job;
- verifications: the judgement of all of them, a SparkApplication or a Job;
- reports: what is concluded from them, a Job;
- snapshots: the experiment as it was when its execution began, a ConfigMap;
- pods: what all pods have in common.
"""
