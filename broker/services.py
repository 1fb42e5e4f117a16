"""What the handlers of a node are made from."""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock import Clock
from broker.config import BrokerConfig
from broker.controller_channel import ControllerChannel
from broker.fetch_sessions import FetchSessionCache
from broker.flusher import Flusher
from broker.forwarding import Forwarder
from broker.groups.config import GroupConfig
from broker.groups.service import GroupService
from broker.groups.transactions import GroupTransactions
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.store import MetadataStore
from broker.metadata.topic_creation import TopicCreation
from broker.purgatory.purgatory import Purgatory
from broker.remote_fetch import RemoteAccess
from broker.replica_manager import ReplicaManager
from broker.replication.throttles import ReplicationThrottles
from broker.slices import Slices
from broker.topic_traffic import TopicTraffic
from broker.transactions.service import TransactionService
from broker.verification.verifier import TransactionVerifier
from cluster.controller.settings import Randomness
from cluster.image import MetadataImage
from storage.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One node's long-lived parts; `broker.node` makes them, `broker.api_wiring` hands them on."""

    config: BrokerConfig
    clock: Clock
    randomness: Randomness
    store: MetadataStore
    logs: LogManager
    replicas: ReplicaManager
    flusher: Flusher
    groups: GroupService
    group_config: GroupConfig
    transactions: TransactionService
    sessions: FetchSessionCache
    produce_purgatory: Purgatory
    fetch_purgatory: Purgatory
    delete_records_purgatory: Purgatory
    traffic: TopicTraffic
    throttles: ReplicationThrottles
    channel: ControllerChannel
    forwarder: Forwarder
    producer_ids: ProducerIds
    topic_creation: TopicCreation
    verifier: TransactionVerifier
    group_transactions: GroupTransactions
    slices: Slices
    remote: RemoteAccess | None = None
    """Remote storage for requests of clients; None on a node without it."""

    def image(self) -> MetadataImage:
        """The metadata as of now."""
        return self.store.image
