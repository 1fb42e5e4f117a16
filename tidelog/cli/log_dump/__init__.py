"""`tidelog log dump`: the files of a log directory."""
