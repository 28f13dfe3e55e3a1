"""Workloads: what an application does beyond sending each message once, and what a run of it must show.

Each kind is one module with one class, which declares its settings and the facts about it, and one entry in `registry`.
A history of such a workload has sessions and attempts (schema 2).
"""
