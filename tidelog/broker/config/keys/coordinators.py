"""Transactions, and the state of share groups.

One line per key: name, default, meaning and bounds as in Kafka.

Source: org.apache.kafka.server.config and its neighbours of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.config.keys.key import boolean, integer, short


class CoordinatorKeys:
    """Transactions, and the state of share groups."""

    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        604_800_000,
        "Time without a transaction after which a transactional id is forgotten.",
        minimum=1,
    )
    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        900_000,
        "Longest timeout that a transactional producer may request.",
        minimum=1,
    )
    transaction_two_phase_commit_enable = boolean(
        "transaction.two.phase.commit.enable",
        False,
        "Whether transactions may be prepared for a commit that an outside coordinator decides.",
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether a partition verifies a transactional write with the coordinator.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "Time between two looks for transactions that took too long.",
        minimum=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "Time between two looks for transactional ids to forget.",
        minimum=1,
    )
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of the topic that keeps transactions.",
        minimum=1,
    )
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of the topic that keeps transactions.",
        minimum=1,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "In-sync replicas that the topic of transactions needs.",
        minimum=1,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        104_857_600,
        "Segment size of the topic that keeps transactions.",
        minimum=1,
    )
    transaction_state_log_load_buffer_size = integer(
        "transaction.state.log.load.buffer.size",
        5_242_880,
        "Bytes read at once when transactions are loaded.",
        minimum=1,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "Time before a broker retries the check that a partition belongs to a transaction.",
        minimum=1,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "Longest time for the check that a partition belongs to a transaction.",
        minimum=0,
    )
    share_coordinator_threads = integer(
        "share.coordinator.threads", 1, "Threads of the share coordinator.", minimum=1
    )
    share_coordinator_append_linger_ms = integer(
        "share.coordinator.append.linger.ms",
        -1,
        "Time for which the share coordinator gathers records before it writes them; -1 adapts by itself.",
        minimum=-1,
    )
    share_coordinator_cached_buffer_max_bytes = integer(
        "share.coordinator.cached.buffer.max.bytes",
        1_048_588,
        "Largest write buffer that the share coordinator keeps for later.",
        minimum=524_288,
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        "Time after which an idle share partition is written as a snapshot.",
        minimum=1,
        internal=True,
    )
    share_coordinator_load_buffer_size = integer(
        "share.coordinator.load.buffer.size",
        5_242_880,
        "Bytes read at once when share state is loaded.",
        minimum=1,
    )
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "Updates of share state between two snapshots.",
        minimum=0,
        maximum=500,
    )
    share_coordinator_state_topic_compression_codec = integer(
        "share.coordinator.state.topic.compression.codec",
        0,
        "Number of the codec in which share state is stored.",
    )
    share_coordinator_state_topic_min_isr = short(
        "share.coordinator.state.topic.min.isr",
        2,
        "In-sync replicas that the topic of share state needs.",
        minimum=1,
    )
    share_coordinator_state_topic_num_partitions = integer(
        "share.coordinator.state.topic.num.partitions",
        50,
        "Partitions of the topic that keeps share state.",
        minimum=1,
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        "Time between two deletions of share state that is no longer needed.",
        minimum=1,
        internal=True,
    )
    share_coordinator_state_topic_replication_factor = short(
        "share.coordinator.state.topic.replication.factor",
        3,
        "Replicas of the topic that keeps share state.",
        minimum=1,
    )
    share_coordinator_state_topic_segment_bytes = integer(
        "share.coordinator.state.topic.segment.bytes",
        104_857_600,
        "Segment size of the topic that keeps share state.",
        minimum=1,
    )
    share_coordinator_write_timeout_ms = integer(
        "share.coordinator.write.timeout.ms",
        5000,
        "Time after which a write of share state that is not replicated fails.",
        minimum=1,
    )
