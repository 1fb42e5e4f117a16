"""Where bytes lie: one port, `ObjectStore`, over a local directory, any fsspec file system, or S3.

An adapter is made from config texts by `backends.object_store`, which imports only the one that is asked
for: a broker without a tier, or with one in a directory, never loads boto3.
"""
