"""Runs scenarios of replication: text files that describe events at the replicas of one partition.

The brokers are real up to the network: ReplicaManager, Partition, logs on disks in memory, the handlers
of leaders, the follower's state machine. The text acts as the controller, the network and the power
supply. Brokers are letters. A line is one of:

    # text                           a comment
    replicas A B C, min isr 2        first: a topic of one partition, led by A in epoch 0, all in sync
    old fetches                      followers use OffsetForLeaderEpoch, as before Fetch version 12
    produce A m1 m2                  a client sends these records to A, one batch each, with acks=all
    write A m1                       the same with acks=1
    batch A m1 m2                    the same as one batch, with acks=all; m1..m9 stands for nine values
    fetch B                          B fetches once, and processes the response
        request B / handle B / deliver B the same in three steps: the request, its handling, the response
    late B                           the request of B from before it stopped is handled now
    sync                             all followers fetch until nothing changes
    pass 200 ms                      the time advances, leaders check whether followers lag
    elect B                          the metadata names B as leader, in the next epoch ...
        elect B isr B C known to B       ... with this ISR; only B is notified now
    isr A B / fence C                the metadata changes the ISR / fences a broker
    notify A / notify A at once      A gets the next change of metadata that it missed / all in one step
    grant A / refuse A CODE          the controller's response to the ISR that A has proposed
    flush A, checkpoint A            A syncs its log / writes its high watermark checkpoint
    kill A / cut power of A / wipe A the process ends / and unsynced data is lost / and all data is lost
    damage A                         one bit of A's log flips, in its first batch
    start A                          A registers with a new broker epoch, and gets all metadata
    > A m1@0 m2@1 hw 1 start 0       A's log now: values, each at its leader epoch; hw and start may follow
    > epochs A 0:0 1:2               A's leader epochs and where they start
    > isr A B                        the committed ISR
    > asks A for B C                 the ISR that A has proposed, without a response yet; or `nothing`
    > acked m1 m2                    the acknowledged records, in order
        > error B FENCED_LEADER_EPOCH    the error of the last response to B, or of B's processing of it
    > refused A                      the controller must refuse the ISR that A has proposed
    > produce A m1 NOT_ENOUGH_REPLICAS   a client gets an error
    > unavailable A                  A cannot use its log
    > epoch 2 at A ends 0:10         A's response to OffsetForLeaderEpoch: epoch 0 ended at offset 10
    > epoch 2 at A in 3 ends CODE    the same; the requester's current leader epoch is 3
    > consumer of A at 5 gets m5     a consumer fetches from offset 5 of A
    > consumer of A at 5 after 0 in 1 gets 0:3   its last record was of epoch 0, its metadata has epoch 1: its
                                     history diverges at 3, in epoch 0; or an error, or `nothing`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from tests.scenarios.replication.readers import consumer_line, consumer_result, epoch_end_result, epoch_line
from tests.scenarios.replication.scenario_broker import T0, TOPIC, TOPIC_ID, ScenarioBroker
from tests.sim.replication.safeguards import NONE_DISABLED, SafeguardSet, ablate
from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.log_managers import write_checkpoint
from tests.support.logs.partition_logs import batch
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.messages.fetch import FetchResponse
from tidelog.protocol.messages.list_offsets import ListOffsetsResponse
from tidelog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.record import read_records
from tidelog.protocol.schema import ApiMessage, MetadataRecord
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

LAG_TIME_MS = 30_000
_ROUNDS_MAX = 40


class Scenario:
    """One scenario; its lines are run in order, each by the first matching pattern of `commands`."""

    broker_type: ClassVar[type[ScenarioBroker]] = ScenarioBroker
    topic_configs: ClassVar[dict[str, str]] = {}
    commands: ClassVar[list[tuple[str, Callable[..., None]]]]

    def __init__(self, text: str, disabled: SafeguardSet = NONE_DISABLED) -> None:
        self.lines = text.splitlines()
        self.disabled = disabled
        self.fetch_version = 18
        self.history: list[list[MetadataRecord]] = []
        self.brokers: dict[str, ScenarioBroker] = {}
        self.acknowledged: list[str] = []
        self.pending_produces: list[tuple[ScenarioBroker, int, str]] = []
        self.now_ms = NOW_MS

    @classmethod
    def of(cls, path: Path, disabled: SafeguardSet = NONE_DISABLED) -> Scenario:
        """Return the scenario of a file."""
        return cls(path.read_text(), disabled)

    def run(self) -> None:
        """Run all lines; an AssertionError names the line that fails."""
        with ablate(self.disabled):
            self._run_lines()

    def _run_lines(self) -> None:
        for number, line in enumerate(self.lines, start=1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            try:
                self._run(text)
                self._collect_acknowledgements()
            except (AssertionError, KafkaError, KeyError) as error:
                raise AssertionError(f"line {number}, {text!r}: {error}") from error

    def _run(self, text: str) -> None:
        if text.startswith(">"):
            self._check(text[1:].split())
            return
        for pattern, command in self.commands:
            match = re.fullmatch(pattern, text)
            if match:
                command(self, *match.groups(default=""))
                return
        raise AssertionError("unknown command")

    # -- the cluster

    def create(self, letters: str, minimum: str) -> None:
        """Run `replicas A B C, min isr 2`."""
        self.brokers = {letter: self.broker_type(letter, self) for letter in letters.split()}
        ids = tuple(broker.id for broker in self.brokers.values())
        self.history.append(
            [
                *(_registration(broker) for broker in self.brokers.values()),
                *(
                    ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value=value)
                    for name, value in {"min.insync.replicas": minimum, **self.topic_configs}.items()
                ),
                TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
                PartitionRecord(
                    partition_id=0,
                    topic_id=TOPIC_ID,
                    replicas=ids,
                    isr=ids,
                    leader=ids[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple(UUID(int=1) for _ in ids),
                ),
            ]
        )
        for broker in self.brokers.values():
            broker.boot()
            broker.apply_metadata(1)

    def old_fetches(self) -> None:
        """Let followers truncate by OffsetForLeaderEpoch."""
        self.fetch_version = 11

    def _publish(self, *records: MetadataRecord, known_to: str = "") -> None:
        self.history.append(list(records))
        letters = known_to.split() or [each for each, broker in self.brokers.items() if broker.replicas]
        for letter in letters:
            broker = self.brokers[letter]
            broker.apply_metadata(len(self.history) - broker.applied_steps)

    def _ids(self, letters: str) -> tuple[int, ...]:
        return tuple(self.brokers[letter].id for letter in letters.split())

    def elect(self, letter: str, isr: str, known_to: str) -> None:
        """Elect a new leader in a new epoch."""
        record = PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            leader=self.brokers[letter].id,
            isr=self._ids(isr) if isr else None,
        )
        self._publish(record, known_to=known_to)

    def change_isr(self, isr: str) -> None:
        """Change the ISR as the controller."""
        self._publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=self._ids(isr)))

    def fence(self, letter: str) -> None:
        """Fence a broker as the controller."""
        broker = self.brokers[letter]
        self._publish(FenceBrokerRecord(id=broker.id, epoch=broker.epoch))

    def apply_metadata(self, letter: str, at_once: str) -> None:
        """Deliver delayed metadata."""
        broker = self.brokers[letter]
        broker.apply_metadata(len(self.history) - broker.applied_steps if at_once else 1)

    def grant(self, letter: str) -> None:
        """Accept the proposed ISR as the controller."""
        broker = self.brokers[letter]
        partition, proposal = broker.running_replicas.proposals.history[-1]
        isr = tuple(member.broker_id for member in proposal.members)
        reason = self._refusal_reason(proposal)
        assert reason is None, reason
        response = CommittedIsr(
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch + 1,
            isr=isr,
        )
        partition.on_isr_response(proposal, response)
        self._publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=isr))

    def _newest_image(self) -> MetadataImage:
        """Return the image of a broker that has applied all metadata."""
        return next(
            broker.replicas.image
            for broker in self.brokers.values()
            if broker.replicas is not None and broker.applied_steps == len(self.history)
        )

    def _refusal_reason(self, proposal: IsrProposal) -> str | None:
        """Return the controller's reason to refuse a proposal, or None."""
        image = self._newest_image()
        partition_image = image.topics_by_name[TOPIC].partitions[0]
        if proposal.partition_epoch != partition_image.partition_epoch:
            return f"partition epoch {proposal.partition_epoch}, expected {partition_image.partition_epoch}"
        for member, epoch in proposal.members:
            broker = image.brokers[member]
            if not broker.is_active:
                return f"broker {member} is fenced"
            if epoch not in (-1, broker.epoch):
                return f"broker {member} has epoch {broker.epoch}, the proposal has {epoch}"
        return None

    def refuse(self, letter: str, code: str) -> None:
        """Refuse the proposed ISR as the controller."""
        partition, proposal = self.brokers[letter].running_replicas.proposals.history[-1]
        partition.on_isr_response(proposal, ErrorCode[code])

    # -- brokers

    def flush(self, letter: str) -> None:
        """Make the log durable."""
        self.brokers[letter].partition.log.flush(NOW_MS)
        write_checkpoint(self.brokers[letter].running_replicas.logs, CheckpointKind.RECOVERY_POINT)

    def checkpoint(self, letter: str) -> None:
        """Write the high watermark checkpoint."""
        write_checkpoint(self.brokers[letter].running_replicas.logs, CheckpointKind.HIGH_WATERMARK)

    def kill(self, letter: str) -> None:
        """Kill the process; the disk keeps all data."""
        self._stop(letter, Survival.KEEP_ALL)

    def cut_power(self, letter: str) -> None:
        """Kill the process; the disk loses unsynced data."""
        self._stop(letter, Survival.LOSE_UNSYNCED)

    def wipe(self, letter: str) -> None:
        """Replace the disk by an empty one."""
        self._stop(letter, Survival.KEEP_ALL)
        self.brokers[letter].fs = CrashFileSystem()

    def _stop(self, letter: str, survival: Survival) -> None:
        broker = self.brokers[letter]
        broker.fs = broker.fs.crash(survival)
        broker.lost_request = broker.request
        broker.replicas = broker.core = None
        self.pending_produces = [each for each in self.pending_produces if each[0] is not broker]

    def damage(self, letter: str) -> None:
        """Flip a bit of the log."""
        self.brokers[letter].fs.flip_bit(f"/data/{T0}/{0:020d}.log", 65 * 8)

    def start(self, letter: str) -> None:
        """Start a new incarnation."""
        broker = self.brokers[letter]
        broker.epoch += 100
        broker.boot()
        self._publish(_registration(broker))

    def pass_ms(self, milliseconds: str) -> None:
        """Advance the time."""
        self.now_ms += int(milliseconds)
        for broker in self.brokers.values():
            if broker.replicas is not None and T0 in broker.replicas.manager.partitions:
                broker.replicas.clock.now_ms = self.now_ms
                broker.partition.check_isr()

    # -- records

    def write(self, letter: str, values: str) -> None:
        """Append with acks=1."""
        for value in _expand(values.split()):
            self.brokers[letter].partition.append(batch([value]), 1, NOW_MS)

    def produce(self, letter: str, values: str) -> None:
        """Append with acks=all."""
        broker = self.brokers[letter]
        for value in _expand(values.split()):
            info = broker.partition.append(batch([value]), -1, NOW_MS)
            self.pending_produces.append((broker, info.last_offset + 1, value))

    def produce_batch(self, letter: str, values: str) -> None:
        """Append with acks=all, in one batch."""
        broker, expanded = self.brokers[letter], _expand(values.split())
        info = broker.partition.append(batch(expanded), -1, NOW_MS)
        self.pending_produces += [(broker, info.last_offset + 1, value) for value in expanded]

    def _collect_acknowledgements(self) -> None:
        still_pending = []
        for broker, required, value in self.pending_produces:
            code = broker.partition.commit_outcome(required)
            if code is ErrorCode.NONE:
                self.acknowledged.append(value)
            elif code is None:
                still_pending.append((broker, required, value))
        self.pending_produces = still_pending

    def fetch(self, letter: str) -> None:
        """Create a request, handle it and deliver the response."""
        self.send_request(letter)
        self.handle(letter)
        self.deliver(letter)

    def send_request(self, letter: str) -> None:
        """Create a follower's request."""
        broker = self.brokers[letter]
        core = broker.core
        assert core is not None, f"{letter} is not a follower"
        self.now_ms += 2_000 if core.next_ready_ms(0) else 0
        now_ms = self.now_ms
        broker.request = (
            core.build_epoch_request(now_ms)
            or core.build_offsets_request(now_ms)
            or core.build_fetch(now_ms, broker.epoch)
        )

    def handle(self, letter: str) -> None:
        """Handle the request at the leader; without a response, the connection is lost."""
        broker = self.brokers[letter]
        leader = next(b for b in self.brokers.values() if b.id == broker.partition.leader_id)
        broker.response = None
        if broker.request is not None and leader.replicas is not None:
            broker.response = leader.connection.handle(broker.request)
            broker.error = _error_of(broker.response)

    def send_late_request(self, letter: str) -> None:
        """Handle a request from before the broker's restart."""
        broker = self.brokers[letter]
        leader = next(b for b in self.brokers.values() if b.id == broker.partition.leader_id)
        assert broker.lost_request is not None
        broker.error = _error_of(leader.connection.handle(broker.lost_request))

    def deliver(self, letter: str) -> None:
        """Deliver the response to the follower."""
        broker = self.brokers[letter]
        core, response = broker.core, broker.response
        assert core is not None
        if isinstance(response, FetchResponse):
            broker.perform(core.on_fetch(response, self.now_ms))
        elif isinstance(response, OffsetForLeaderEpochResponse):
            broker.perform(core.on_epochs(response, self.now_ms))
        elif isinstance(response, ListOffsetsResponse):
            broker.perform(core.on_offsets(response, self.now_ms))
        elif broker.request is not None:
            core.on_fetch_failed(self.now_ms)
        broker.request = broker.response = None

    def sync(self) -> None:
        """Let all followers fetch until nothing changes."""
        before: object = None
        for _ in range(_ROUNDS_MAX):
            now = [self._state(broker) for broker in self.brokers.values() if broker.core]
            if now == before:
                return
            before = now
            # The largest number of requests before a change.
            for _ in range(6):
                for letter, broker in self.brokers.items():
                    if broker.core is not None and broker.replicas is not None:
                        self.fetch(letter)
        raise AssertionError("the replicas do not reach a stable state")

    def _state(self, broker: ScenarioBroker) -> object:
        log = broker.partition.log
        follower_partition = None if broker.core is None else broker.core.partitions.get(T0)
        state = None if follower_partition is None else follower_partition.state
        return entries_of(log), log.high_watermark, log.log_start_offset, len(self.history), state

    # -- checks

    def _check(self, words: list[str]) -> None:
        """Check one line that begins with `>`."""
        kind = words[0]
        if kind == "acked":
            assert self.acknowledged == _expand(words[1:]), f"acknowledged records: {self.acknowledged}"
        elif kind == "error":
            result = self.brokers[words[1]].error
            assert result is not None and result.name == words[2], f"error of {words[1]}: {result!r}"
        elif kind == "unavailable":
            assert T0 not in self.brokers[words[1]].running_replicas.manager.partitions, (
                "the partition is available"
            )
        elif kind == "refused":
            proposals = self.brokers[words[1]].running_replicas.proposals.history
            assert proposals and self._refusal_reason(proposals[-1][1]) is not None, (
                "the controller would accept the proposal"
            )
        elif kind == "produce":
            self._check_refusal(words[1], words[2], words[3])
        elif kind == "asks":
            self._check_proposal(words[1], words[3:])
        elif kind in ("consumer", "epoch"):
            self._check_reader(kind, " ".join(words[1:]))
        elif kind == "isr":
            isr = self._newest_image().topics_by_name[TOPIC].partitions[0].isr
            assert isr == self._ids(" ".join(words[1:])), f"ISR: {isr}"
        elif kind == "epochs":
            entries = self.brokers[words[1]].partition.log.leader_epochs.entries
            found_entries = [f"{epoch}:{start}" for epoch, start in entries]
            assert found_entries == words[2:], f"leader epochs: {found_entries}"
        else:
            self._check_log(self.brokers[kind].partition.log, words[1:])

    def _check_reader(self, kind: str, text: str) -> None:
        if kind == "consumer":
            letter, offset, last, current, expected = consumer_line(text)
            result = consumer_result(
                self.brokers[letter].running_replicas, TOPIC_ID, T0, offset, last, current
            )
        else:
            letter, epoch, current, expected = epoch_line(text)
            result = epoch_end_result(self.brokers[letter].running_replicas, T0, epoch, current)
        assert result == expected, f"result: {result}"

    def _check_proposal(self, letter: str, isr: list[str]) -> None:
        proposal = self.brokers[letter].partition.pending_isr
        requested = "nothing" if proposal is None else tuple(member.broker_id for member in proposal.members)
        expected = "nothing" if isr == ["nothing"] else self._ids(" ".join(isr))
        assert requested == expected, f"proposed ISR: {requested}"

    def _check_refusal(self, letter: str, value: str, code: str) -> None:
        try:
            self.produce(letter, value)
        except KafkaError as error:
            assert error.code.name == code, f"error: {error.code.name}"
        else:
            raise AssertionError("the record was accepted")

    def _check_log(self, log: PartitionLog, words: list[str]) -> None:
        entries = entries_of(log)
        for name, value in (("hw", log.high_watermark), ("start", log.log_start_offset)):
            if name in words:
                at = words.index(name)
                assert int(words[at + 1]) == value, f"{name}: {value}, log: {entries}"
                del words[at : at + 2]
        assert entries == _expand(words), f"log: {entries}, high watermark: {log.high_watermark}"


def entries_of(log: PartitionLog) -> list[str]:
    """Return all local records as value@epoch."""
    entries: list[str] = []
    offset = log.local_log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, 1 << 20, at_least_one=True).records
        assert records is not None
        data = records.read()
        for position, header in iterate_headers(data):
            try:
                values = [(record.value or b"").decode() for record in read_records(data, position, header)]
            except DecodeError:
                values = ["damaged"]
            entries += [f"{value}@{header.partition_leader_epoch}" for value in values]
            offset = header.next_offset
    return entries


def _expand(words: list[str]) -> list[str]:
    """Return `m3..m5@1` as m3@1 m4@1 m5@1."""
    expanded = []
    for word in words:
        match = re.fullmatch(r"([a-z]+)(\d+)\.\.\1(\d+)(@\d+)?", word)
        if match is None:
            expanded.append(word)
        else:
            name, first, last, epoch = match.groups(default="")
            expanded += [f"{name}{number}{epoch}" for number in range(int(first), int(last) + 1)]
    return expanded


def _registration(broker: ScenarioBroker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=UUID(int=broker.epoch),
        broker_epoch=broker.epoch,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
        fenced=False,
    )


def _error_of(response: ApiMessage) -> ErrorCode:
    if isinstance(response, FetchResponse):
        data = [data for topic in response.responses for data in topic.partitions]
        return ErrorCode(data[0].error_code if data else response.error_code)
    topics: Any = response.topics  # type: ignore[attr-defined]
    return ErrorCode(topics[0].partitions[0].error_code)


_L = r"([A-Z])"
_LS = r"([A-Z](?: [A-Z])*)"
Scenario.commands = [
    (rf"replicas {_LS}, min isr (\d+)", Scenario.create),
    (r"old fetches", Scenario.old_fetches),
    (rf"produce {_L} (.+)", Scenario.produce),
    (rf"write {_L} (.+)", Scenario.write),
    (rf"batch {_L} (.+)", Scenario.produce_batch),
    (rf"late {_L}", Scenario.send_late_request),
    (rf"fetch {_L}", Scenario.fetch),
    (rf"request {_L}", Scenario.send_request),
    (rf"handle {_L}", Scenario.handle),
    (rf"deliver {_L}", Scenario.deliver),
    (r"sync", Scenario.sync),
    (r"pass (\d+) ms", Scenario.pass_ms),
    (rf"elect {_L}(?: isr {_LS})?(?: known to {_LS})?", Scenario.elect),
    (rf"isr {_LS}", Scenario.change_isr),
    (rf"fence {_L}", Scenario.fence),
    (rf"notify {_L}( at once)?", Scenario.apply_metadata),
    (rf"grant {_L}", Scenario.grant),
    (rf"refuse {_L} (\w+)", Scenario.refuse),
    (rf"flush {_L}", Scenario.flush),
    (rf"checkpoint {_L}", Scenario.checkpoint),
    (rf"kill {_L}", Scenario.kill),
    (rf"cut power of {_L}", Scenario.cut_power),
    (rf"wipe {_L}", Scenario.wipe),
    (rf"damage {_L}", Scenario.damage),
    (rf"start {_L}", Scenario.start),
]
