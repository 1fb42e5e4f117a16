"""Transactions, and the state of share groups.

Each key has its name, its default, its documentation and its bounds. Names, defaults and bounds are Kafka's.

Source: org.apache.kafka.server.config and related packages of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import boolean, integer, short


class CoordinatorKeys:
    """Transactions, and the state of share groups."""

    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        604_800_000,
        "The time in milliseconds without a transaction after which a transactional id expires.",
        minimum=1,
    )
    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        900_000,
        "The maximum transaction timeout in milliseconds that a producer can request.",
        minimum=1,
    )
    transaction_two_phase_commit_enable = boolean(
        "transaction.two.phase.commit.enable",
        False,
        "Whether producers can take part in two-phase commits, whose transactions have no timeout. Has no "
        "effect yet.",
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether a partition verifies with the coordinator that it is part of a transaction before it "
        "accepts the first batch.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "The interval in milliseconds at which the coordinator aborts transactions that have timed out.",
        minimum=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "The interval in milliseconds at which the coordinator removes expired transactional ids.",
        minimum=1,
    )
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "The number of partitions of __transaction_state. Do not change it after the topic has been created.",
        minimum=1,
    )
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        "The replication factor of __transaction_state. The topic is not created until there are enough "
        "brokers.",
        minimum=1,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "The topic config min.insync.replicas of __transaction_state.",
        minimum=1,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        104_857_600,
        "The segment size in bytes of __transaction_state.",
        minimum=1,
    )
    transaction_state_log_load_buffer_size = integer(
        "transaction.state.log.load.buffer.size",
        5_242_880,
        "The number of bytes that are read at once when transactions are loaded from __transaction_state.",
        minimum=1,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "The time in milliseconds before a broker retries to add partitions to a transaction while the "
        "previous transaction is ending.",
        minimum=1,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "The maximum time in milliseconds for which a broker retries to add partitions to a transaction "
        "while the previous transaction is ending.",
        minimum=0,
    )
    share_coordinator_threads = integer(
        "share.coordinator.threads",
        1,
        "The number of threads of the share coordinator. Has no effect.",
        minimum=1,
    )
    share_coordinator_append_linger_ms = integer(
        "share.coordinator.append.linger.ms",
        -1,
        "The time in milliseconds that the share coordinator collects changes of states before it writes "
        "them as one batch. With -1 a batch has the changes that arrive in one iteration of the event loop. "
        "With 0 each change is written at once.",
        minimum=-1,
    )
    share_coordinator_cached_buffer_max_bytes = integer(
        "share.coordinator.cached.buffer.max.bytes",
        1_048_588,
        "The maximum size in bytes of a write buffer that the share coordinator reuses. Has no effect.",
        minimum=524_288,
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        "The time in milliseconds after which a snapshot is written for a share partition without updates.",
        minimum=1,
        internal=True,
    )
    share_coordinator_load_buffer_size = integer(
        "share.coordinator.load.buffer.size",
        5_242_880,
        "The number of bytes that are read at once when share-group state is loaded.",
        minimum=1,
    )
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "The number of update records that the share coordinator writes between two snapshots.",
        minimum=0,
        maximum=500,
    )
    share_coordinator_state_topic_compression_codec = integer(
        "share.coordinator.state.topic.compression.codec",
        0,
        "The compression codec of the share-group state topic: 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or "
        "4 (zstd).",
    )
    share_coordinator_state_topic_min_isr = short(
        "share.coordinator.state.topic.min.isr",
        2,
        "The topic config min.insync.replicas of the share-group state topic.",
        minimum=1,
    )
    share_coordinator_state_topic_num_partitions = integer(
        "share.coordinator.state.topic.num.partitions",
        50,
        "The number of partitions of the share-group state topic. Do not change it after the topic has "
        "been created.",
        minimum=1,
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        "The interval in milliseconds at which the share coordinator deletes records that are no longer "
        "needed.",
        minimum=1,
        internal=True,
    )
    share_coordinator_state_topic_replication_factor = short(
        "share.coordinator.state.topic.replication.factor",
        3,
        "The replication factor of the share-group state topic.",
        minimum=1,
    )
    share_coordinator_state_topic_segment_bytes = integer(
        "share.coordinator.state.topic.segment.bytes",
        104_857_600,
        "The segment size in bytes of the share-group state topic.",
        minimum=1,
    )
    share_coordinator_write_timeout_ms = integer(
        "share.coordinator.write.timeout.ms",
        5000,
        "The time in milliseconds after which a write of the share coordinator fails if it is not "
        "replicated to all in-sync replicas.",
        minimum=1,
    )
