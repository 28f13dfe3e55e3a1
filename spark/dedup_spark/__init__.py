"""The judges of histories: the Spark job that verifies any number of runs, and the naive oracle it is compared with."""
