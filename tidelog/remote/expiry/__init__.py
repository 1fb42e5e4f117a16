"""Deletion of remote segments.

task -> plan              which remote segments retention deletes, and where the log starts afterwards
     -> segment_deletion  DELETE_SEGMENT_STARTED, the objects, DELETE_SEGMENT_FINISHED
partition_remover         all segments of a partition whose topic was deleted or is no longer tiered
"""
