"""The operator: `kubectl apply -f experiment.yaml` is the second door to the same engine.

It imports dedup, and nothing else of ours. Read it in this order:

- objects: of what an experiment consists in a cluster, as pure functions;
- sights, conditions: what can be seen of that, and what the status says, as pure functions too;
- clusters, releases: the few things that are asked of Kubernetes and of Helm; clocks: by whose time;
- leases, fences: of several operators, one asks for anything that changes something;
- belongings: the objects of one execution; provision: three ways to a system under test;
- platforms: what the stage machine has done in a cluster; reconciliations: one look at one experiment;
- queues, watching: who looks at what, and when;
- schema, statuses: the resource as Kubernetes knows it.
"""
