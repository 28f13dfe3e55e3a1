"""Comparisons across clusters: what is decided (`decisions`), how others are reached (`kubeconfigs`), and the hands."""
