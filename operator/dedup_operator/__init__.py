"""The operator: `kubectl apply -f experiment.yaml` will be the second door to the same engine.

So far it holds what Kubernetes is told of the resource (`crd`). The handlers and the Kubernetes platform come with the
operator's own issue. It imports dedup, and nothing else of ours. Experiments are run by `dedup run` (dedup_lab) today.
"""
