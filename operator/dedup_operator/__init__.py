"""The operator: `kubectl apply -f experiment.yaml` will be the second door to the same engine.

Nothing is here yet. The handlers and the Kubernetes platform come with the operator's own issue; until then this
package exists so that its place, its name and the direction of its imports (dedup, and nothing else of ours) are
settled and checked. Experiments are run by `dedup run` (dedup_lab) today.
"""
