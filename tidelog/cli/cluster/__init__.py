"""`tidelog cluster`, `quorum`, `config` and `backup`: the nodes of a cluster, its configs and backups."""
