"""The objects of a segment: their keys, the manifest, and the transforms of their bytes.

    <prefix><topic>-<topicId>/<partition>/<start offset, 20 digits>-<segmentId>

        .log           chunks, one after the other
        .indexes       indexes and other small files, one after the other
        .rsm-manifest  JSON: the positions of chunks and small files

Each chunk of the log is transformed separately (zstd, then AES-256-GCM), so that any range can be read by
fetching its chunks. The manifest is written last: a segment without a manifest does not exist.

Source: Aiven's RemoteStorageManager for Apache Kafka, which uses the same buckets; verified with objects that
the plugin wrote (tests/golden/segment_objects).
"""
