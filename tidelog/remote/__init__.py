"""Tiered storage (KIP-405): segments that leave the local disk, what is known of them, and who reads them.

What flows where:

    copy     RemoteLogManager -> RemoteStorageManager.copy_log_segment_data; the segment's life is written to
             the RemoteLogMetadataManager before (COPY_SEGMENT_STARTED) and after (COPY_SEGMENT_FINISHED)
    read     RemoteLogReader -> metadata by leader epoch and offset -> index cache -> ranged read
    delete   retention, deleted topics -> DELETE_SEGMENT_STARTED -> objects -> DELETE_SEGMENT_FINISHED

Storage managers block and are called from bounded pools of threads; everything that is state lives on the
event loop of the node and changes in plain functions.
"""
