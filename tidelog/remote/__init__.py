"""Tiered storage (KIP-405): segments are copied to remote storage, read from it and deleted there.

Data flow:

    copy     RemoteLogManager -> RemoteStorageManager.copy_log_segment_data; the RemoteLogMetadataManager
             records COPY_SEGMENT_STARTED before it and COPY_SEGMENT_FINISHED after it
    read     RemoteLogReader -> metadata by leader epoch and offset -> index cache -> ranged read
    delete   retention, deleted topics -> DELETE_SEGMENT_STARTED -> objects -> DELETE_SEGMENT_FINISHED

Storage managers block and are called from bounded pools of threads. All state is owned by the event loop of
the node and changes in plain functions.
"""
