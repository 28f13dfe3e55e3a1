"""The operator: `kubectl apply -f experiment.yaml` is the second door to the same engine.

It imports dedup, and nothing else of ours. Read it in this order:

- objects: of what an experiment consists in a cluster, as pure functions;
- sights, conditions: what can be seen of that, and what the status says, as pure functions too;
- clusters, releases: the few things that are asked of Kubernetes and of Helm; clocks: by whose time;
- leases, fences: of several operators, one asks for anything that changes something;
- platforms: the stage machine's hands; reconciliations: one look at one experiment;
- queues, watching: who looks at what, and when;
- crd, schemas, rules, statuses: what Kubernetes is told of the resource.
"""
