"""Copying of sealed segments to remote storage, by the leader of a partition.

task -> plan              which segments are copied next
     -> segment_copy      COPY_SEGMENT_STARTED, the objects, COPY_SEGMENT_FINISHED
"""
