"""The objects that a segment becomes: their keys, the manifest, and what is done to bytes on the way.

    <prefix><topic>-<topicId>/<partition>/<start offset, 20 digits>-<segmentId>

        .log           chunks, end to end
        .indexes       small files, end to end
        .rsm-manifest  JSON: what is where

Each chunk of the log is transformed on its own (zstd, then AES-256-GCM), so that any range can be read by
fetching the chunks it touches. The manifest is written last: a segment without one does not exist.

Source: Aiven's RemoteStorageManager for Apache Kafka, whose buckets these are; checked against the plugin
itself (tests/golden/segment_objects).
"""
