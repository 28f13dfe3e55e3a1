"""The judges of histories: the Spark job, which verifies any number of runs, and the naive oracle, which checks it."""
