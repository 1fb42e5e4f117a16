"""The objects that handlers use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.channels.forwarding import Forwarder
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.transactions import GroupTransactions
from tidelog.broker.coordinators.share.persister import SharePersister
from tidelog.broker.coordinators.share.service import ShareCoordinatorService
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.coordinators.verification.verifier import TransactionVerifier
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.metadata.topic_creation import TopicCreation
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.waiting_requests import WaitingReaders
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.replication.log_dir_moves import LogDirMoves
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.share_partitions.member_sessions import MemberSessions
from tidelog.broker.share_partitions.registry import SharePartitions
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
from tidelog.cluster.image import MetadataImage
from tidelog.storage.directories.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The long-lived objects of one node that handlers use; `tidelog.broker.node` creates them."""

    config: BrokerConfig
    clock: Clock
    store: MetadataStore
    logs: LogManager
    replicas: ReplicaManager
    flusher: Flusher
    groups: GroupService

    transactions: TransactionService
    share_coordinator: ShareCoordinatorService
    share_persister: SharePersister
    share_partitions: SharePartitions
    share_sessions: MemberSessions
    sessions: FetchSessionCache
    produce_purgatory: Purgatory
    fetch_purgatory: Purgatory
    readers: WaitingReaders
    delete_records_purgatory: Purgatory
    traffic: TopicTraffic
    throttles: ReplicationThrottles

    forwarder: Forwarder
    producer_ids: ProducerIds
    topic_creation: TopicCreation
    verifier: TransactionVerifier
    group_transactions: GroupTransactions
    slices: Slices
    check_certificates: Callable[[BrokerConfig], Awaitable[None]]
    """Raises ConfigError if the listeners could not use their certificates with a configuration."""
    authorizer: Authorizer
    log_dir_moves: LogDirMoves
    remote: RemoteAccess | None = None
    """Remote storage; None on a node without it."""
    client_telemetry: ClientTelemetry | None = None
    """The metrics of clients; None on a node without receivers of them."""

    def image(self) -> MetadataImage:
        """Return the current metadata image."""
        return self.store.image

    def topic_access(self) -> TopicAccess:
        """Return the access to topics for the handlers of offsets and transactions."""
        return TopicAccess(self.image, self.slices, self.authorizer)
