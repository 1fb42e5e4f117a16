"""Verification of transactional writes on the leader of a partition (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.clock import Clock
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.coordinators.consumer_offsets import TransactionalOffsetsLog
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.transactions import GroupTransactions
from tidelog.broker.coordinators.verification.add_partitions_to_txn_manager import (
    AddPartitionsToTxnManager,
    BrokerRequests,
)
from tidelog.broker.coordinators.verification.metrics import report_verification
from tidelog.broker.coordinators.verification.verifier import TransactionVerifier, VerificationSettings
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.compression import Compression


class TransactionalWrites:
    """Verifies with the coordinator that a partition is in a transaction, before its first batch."""

    def __init__(
        self,
        replicas: ReplicaManager,
        brokers: BrokerRequests,
        clock: Clock,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        """Create the verifier; `config` returns the current configuration."""
        self._replicas = replicas
        self._clock = clock
        self._config = config
        self._manager = AddPartitionsToTxnManager(brokers, image, clock.monotonic_ms)
        self.verifier = TransactionVerifier(replicas, self._manager, clock, self._settings)

    def group_transactions(self, groups: GroupService, fetch_purgatory: Purgatory) -> GroupTransactions:
        """Return the transactional offset commits, which are written to `__consumer_offsets`."""
        compression = Compression(self._config().offsets_topic_compression_codec)
        log = TransactionalOffsetsLog(
            self._replicas, self.verifier, fetch_purgatory, self._clock, compression
        )
        return groups.transactions(log)

    def report_to(self, metrics: BrokerMetrics) -> None:
        """Register the metrics of verifications and of hanging transactions."""
        report_verification(
            metrics,
            self._replicas,
            self._manager,
            self._clock,
            lambda: self._config().transaction_max_timeout_ms,
        )

    async def close(self) -> None:
        """Send no more verifications."""
        await self._manager.close()

    def _settings(self) -> VerificationSettings:
        config = self._config()
        return VerificationSettings(
            config.transaction_partition_verification_enable,
            config.add_partitions_to_txn_retry_backoff_ms,
            min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms),
        )
