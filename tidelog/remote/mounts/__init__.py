"""Mounted topics: topics of other clusters, read from their buckets without copying.

listing    the segments of a source partition, from the keys and the manifests in its bucket
mounting   the commands: a mounted topic is created and deleted
follow     which of them the mounted log gets next, and which have disappeared (pure)
"""
