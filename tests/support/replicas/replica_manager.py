"""A ReplicaManager on a disk in memory, with requests built by the test."""

from __future__ import annotations

from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.configs import LAG_TIME_MAX_MS
from tests.support.logs.held_flusher import HeldFlusher
from tests.support.logs.log_managers import new_log_manager
from tests.support.logs.manual_log_work import ManualLogWork
from tests.support.metadata.images import broker_registration_record
from tidelog.base.clock import Clock
from tidelog.broker.network.request import Request, Response
from tidelog.broker.partitions.leadership import LeaderPartition, Leadership, LeadershipPorts
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.waiting_requests import WaitingRequests
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import LeaderRecoveryState, MetadataImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.framing import RequestHeader, read_response_header
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.registry import ApiKey, response_type
from tidelog.protocol.schema import ApiMessage, MetadataRecord
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

NODE = 1


class Proposals:
    """Records the ISR changes that leaders propose; the test acts as the controller."""

    def __init__(self) -> None:
        self.history: list[tuple[LeaderPartition, IsrProposal]] = []

    def propose(self, partition: LeaderPartition, proposal: IsrProposal) -> None:
        self.history.append((partition, proposal))

    def commit(self) -> tuple[int, ...]:
        """Accept the latest proposal and return the new ISR."""
        partition, proposal = self.history[-1]
        isr = tuple(member.broker_id for member in proposal.members)
        response = CommittedIsr(
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch + 1,
            isr=isr,
        )
        assert not partition.on_isr_response(proposal, response)
        return isr


def no_waiting_requests(clock: Clock) -> WaitingRequests:
    """Return purgatories without requests."""
    timers = Timers(clock.monotonic_ms)
    return WaitingRequests(
        Purgatory("Fetch", timers), Purgatory("Produce", timers), Purgatory("DeleteRecords", timers)
    )


class Replicas:
    """A ReplicaManager and its metadata image, to which the test applies records."""

    def __init__(
        self,
        fs: CrashFileSystem | None = None,
        *log_dirs: str,
        node_id: int = NODE,
        log_config: LogConfig | None = None,
    ) -> None:
        """Start the logs on `fs`; `log_config` applies to logs that exist before the metadata."""
        self.clock = ManualClock()
        self.proposals = Proposals()
        self.flusher = HeldFlusher(lambda log: self.manager.on_flushed(log))
        self.leadership = Leadership(
            node_id,
            clock=self.clock,
            brokers=lambda: self.image.brokers,
            own_epoch=lambda: 100 + node_id,
            lag_time_max_ms=LAG_TIME_MAX_MS,
            ports=LeadershipPorts(self.proposals, no_waiting_requests(self.clock), self.flusher.flush),
        )
        self.fs = fs or CrashFileSystem()
        self.logs = new_log_manager(
            self.fs, log_dirs or ["/data"], default_config=log_config or DEFAULT_LOG_CONFIG
        )
        self.logs.start(NOW_MS)
        self.log_work = ManualLogWork(lambda outcomes: self.manager.on_log_work_done(outcomes, NOW_MS))
        self._defers_log_work = False
        self.manager = ReplicaManager(node_id, self.logs, {}, self.leadership, self.log_work)
        self.image = MetadataImage(cluster_id="test")
        self._created = 0

    def defer_log_work(self) -> ManualLogWork:
        """Let the test create and retire logs from now on; until then, each delta does that."""
        self._defers_log_work = True
        return self.log_work

    def replay(self, *records: MetadataRecord) -> None:
        """Apply these records as one delta."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.image(self.image.offset + len(records), 1)
        self.manager.apply(delta, self.image, NOW_MS)
        if not self._defers_log_work:
            self.log_work.finish_with_callbacks()

    def register(self, *brokers: int, fenced: bool = False) -> None:
        """Register brokers, broker N at epoch 100 + N and in rack N."""
        self.replay(
            *(broker_registration_record(broker, rack=f"rack{broker}", fenced=fenced) for broker in brokers)
        )

    def watch(self, fetch: Purgatory, produce: Purgatory, delete_records: Purgatory) -> None:
        """Notify waiting operations when a partition changes."""
        self.leadership.waiting_requests = WaitingRequests(delete_records, fetch, produce)

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        isr: tuple[int, ...] = (NODE,),
        replicas: tuple[int, ...] | None = None,
        leader: int = NODE,
        leader_epoch: int = 0,
        leader_recovery_state: int = LeaderRecoveryState.RECOVERED,
        **configs: str,
    ) -> UUID:
        """Create a topic of equal partitions; config keys have underscores instead of dots."""
        topic_id = UUID(int=1_000 + self._created)
        self._created += 1
        self.replay(
            *(
                ConfigRecord(resource_type=2, resource_name=topic, name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
            TopicRecord(name=topic, topic_id=topic_id),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas or isr,
                    isr=isr,
                    leader=leader,
                    leader_epoch=leader_epoch,
                    leader_recovery_state=leader_recovery_state,
                    partition_epoch=0,
                    directories=tuple(UUID(int=1) for _ in replicas or isr),
                )
                for index in range(partitions)
            ),
        )
        return topic_id


class FakeRequest(Request):
    """A request without a connection, which keeps its response."""

    def __init__(
        self, message: ApiMessage, version: int, correlation_id: int = 7, client_id: str = "test"
    ) -> None:
        body = memoryview(bytearray(encode(message, version)))
        self.frame = body
        self.header = RequestHeader(message.api_key, version, correlation_id, client_id)
        self.body = body
        self.received_ms = NOW_MS
        self.quota = None
        self.throttle_times_ms: list[int] = []
        self.responses: list[bytes | None] = []
        self.from_listener = "PLAINTEXT"
        self.closed: list[str] = []
        self.failed: list[BaseException] = []
        self.on_abandoned = None
        self.on_lost = None
        self.route = None
        self.has_gone = False

    @property
    def is_open(self) -> bool:
        return not (self.responses or self.closed or self.failed or self.has_gone)

    def abandon(self) -> None:
        """Disconnect the peer before the response."""
        self.has_gone = True
        self.frame = self.body = memoryview(b"")
        for callback in (self.on_abandoned, self.on_lost):
            if callback is not None:
                callback(self)

    @property
    def peer(self) -> str:
        return "test:1"

    @property
    def listener(self) -> str:
        return self.from_listener

    @property
    def principal(self) -> str:
        return "User:alice"

    def begin_remote_time(self) -> None:
        """Measure nothing."""

    def throttle(self, throttle_time_ms: int) -> None:
        assert not self.responses, "a connection is muted before the response is sent"
        self.throttle_times_ms.append(throttle_time_ms)

    def respond(self, response: Response) -> None:
        self.responses.append(None if response is None else _required_bytes(response))

    def release_frame(self, *, keeps_message: bool = False) -> None:
        self.frame = self.body = memoryview(b"")

    def park(self) -> None:
        self.frame = self.body = memoryview(b"")

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    def fail(self, error: BaseException) -> None:
        self.failed.append(error)

    @property
    def response(self) -> ApiMessage:
        """Return the only response, decoded."""
        (response,) = self.responses
        assert response is not None
        key, version = ApiKey(self.header.api_key), self.header.api_version
        size = int.from_bytes(response[:4], "big")
        assert size == len(response) - 4
        correlation_id, position = read_response_header(memoryview(response)[4:], key, version)
        assert correlation_id == self.header.correlation_id
        return decode(response_type(key), response[4 + position :], version)


def _required_bytes(response: Response) -> bytes:
    assert response is not None
    parts = [response] if isinstance(response, bytes | bytearray) else response
    return b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)
