"""Object stores: one port, `ObjectStore`, over a local directory, any fsspec file system, or S3.

`backends.object_store` creates an adapter from config texts. It imports only the adapter that is needed: a
broker without remote storage, or with remote storage in a directory, never loads boto3.
"""
