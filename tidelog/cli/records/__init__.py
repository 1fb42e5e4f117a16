"""`tidelog produce`, `consume` and `perf`: records on the command line."""
