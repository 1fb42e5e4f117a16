"""Runs scenarios of replication: text files that say what happens to the replicas of one partition.

The brokers are real up to the network: ReplicaManager, Partition, logs on disks in memory, the handlers
that leaders answer with, the follower's state machine. The text plays the controller, the network and
the power supply. Brokers are letters. A line is one of:

    # why                            a comment
    replicas A B C, min isr 2        first: a topic of one partition, led by A in epoch 0, all in sync
    old fetches                      followers ask with OffsetForLeaderEpoch, as before Fetch version 12
    produce A m1 m2                  a client sends these, one batch each, with acks=all, to A
    write A m1                       the same with acks=1
    batch A m1 m2                    the same as one batch, with acks=all; m1..m9 stands for nine values
    fetch B                          B fetches once, and does what the answer says
    ask B / handle B / deliver B     the same in three: the request is made, answered, the answer arrives
    late B                           what B asked before it went down is handled only now
    sync                             all followers fetch until nothing changes any more
    pass 200 ms                      time goes by, leaders look whether followers lag
    elect B                          the metadata names B as leader, in the next epoch ...
    elect B isr B C heard by B       ... with this ISR; only B hears of it now
    isr A B / fence C                the metadata changes the ISR / fences a broker
    hear A / hear A at once          A hears the next step of what it missed / all in one step
    grant A / refuse A CODE          the controller's answer to the ISR that A has asked for
    flush A, checkpoint A            A syncs its log / writes its high watermarks down
    kill A / cut power of A / wipe A the process ends / and what was not synced is lost / and all is lost
    damage A                         one bit of A's log flips, in its first batch
    start A                          A registers anew, with a new broker epoch, and hears everything
    > A m1@0 m2@1 hw 1 start 0       A's log now: values, each at its leader epoch; hw and start may follow
    > epochs A 0:0 1:2               A's leader epochs and where they start
    > isr A B                        A's metadata is of no interest here: the committed ISR
    > asks A for B C                 the ISR that A has asked the controller for and not heard of; `nothing`
    > acked m1 m2                    what clients were told to be safe, in order
    > told B FENCED_LEADER_EPOCH     the error of the last answer to B, or of what B did with it
    > refused A                      the controller must refuse the ISR that A has asked for
    > produce A m1 NOT_ENOUGH_REPLICAS   a client is refused
    > unavailable A                  A cannot use its log
    > epoch 2 at A ends 0:10         what A answers to OffsetForLeaderEpoch: epoch 0 ended at offset 10
    > epoch 2 at A in 3 ends CODE    the same; who asks believes that the leader epoch is 3
    > consumer of A at 5 gets m5     a consumer fetches from offset 5 of A
    > consumer of A at 5 after 0 in 1 gets 0:3   its last record was of epoch 0, its metadata says epoch 1: it
                                     is told that its history ends at 3, in epoch 0; or an error, `nothing`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast
from uuid import UUID

from tests.scenarios.replication.readers import consumed, consumer_line, end_of_epoch, epoch_line
from tests.sim.replication.safeguards import NONE_DISABLED, SafeguardSet, without
from tests.support.disks.crash_file_system import CrashFileSystem
from tests.support.disks.crash_images import Survival
from tests.support.logs.log_managers import write_checkpoint
from tests.support.logs.partition_logs import NOW_MS, batch
from tests.support.replicas.replica_manager import Replicas
from tests.support.replicas.replica_pair import LeaderConnection
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.replication.follower_log import apply_action
from tidelog.cluster.image import NO_LEADER
from tidelog.cluster.replication.follower_aux import RemoteTier
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.follower_state import (
    Action,
    FetchAuxiliary,
    PartitionDelayed,
    PartitionFailed,
)
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrProposal
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
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
from tidelog.storage.config.topic_configs import log_config_from
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.log.partition_log import PartitionLog

TOPIC, TOPIC_ID = "t", UUID(int=77)
T0 = TopicPartition(TOPIC, 0)
LAG_TIME_MS = 30_000
_ROUNDS_MAX = 40


class ScenarioBroker:
    """One broker of a scenario, up or down."""

    def __init__(self, letter: str, scenario: Scenario) -> None:
        self.letter = letter
        self.id = ord(letter) - ord("A") + 1
        self.epoch = 100 + self.id
        self.fs = CrashFileSystem()
        self.heard = 0
        """How many steps of the metadata it knows."""
        self.replicas: Replicas | None = None
        self.core: FollowerFetcher | None = None
        self.request: ApiMessage | None = None
        self.lost_request: ApiMessage | None = None
        self.answer: ApiMessage | None = None
        self.told: ErrorCode | None = None
        self.tier: RemoteTier | None = None
        self._scenario = scenario

    @property
    def up(self) -> Replicas:
        """Its parts; AssertionError while it is down."""
        assert self.replicas is not None, f"{self.letter} is down"
        return self.replicas

    @property
    def partition(self) -> Partition:
        """Its replica."""
        return self.up.manager.partition(T0)

    def boot(self) -> None:
        """Start on what the disk has."""
        config = log_config_from(self._scenario.topic_configs)
        self.replicas = Replicas(self.fs, node_id=self.id, log_config=config)
        self.replicas.leadership.own_epoch = lambda: self.epoch
        self.connection = LeaderConnection(self.replicas, self._scenario.fetch_version)
        self.core = None
        self.heard = 0
        self.request = self.answer = None

    def hear(self, steps: int) -> None:
        """Follow the next `steps` steps of the metadata as one."""
        history = self._scenario.history
        records = [record for step in history[self.heard : self.heard + steps] for record in step]
        self.heard = min(self.heard + steps, len(history))
        if not records:
            return
        epoch_before = self._followed_epoch()
        self.up.replay(*records)
        if T0 not in self.up.manager.partitions:
            self.core = None
            return
        partition = self.partition
        if partition.leader is not None or partition.leader_id == NO_LEADER:
            self.core = None
        elif self.core is None or partition.leader_epoch != epoch_before:
            self.core = FollowerFetcher(
                FollowerSettings(
                    replica_id=self.id,
                    partition_max_bytes=1,
                    max_bytes=1 << 20,
                    min_bytes=1,
                    max_wait_ms=0,
                    backoff_ms=1,
                ),
                fetch_version=self._scenario.fetch_version,
                tier=self.tier,
            )
            self.request = self.answer = None
            self.perform(self.core.add(T0, TOPIC_ID, partition.leader_epoch, partition.log))

    def _followed_epoch(self) -> int:
        known = None if self.core is None else self.core.partitions.get(T0)
        return -1 if known is None else known.leader_epoch

    def perform(self, actions: list[Action]) -> None:
        """Do what the state machine wants."""
        assert self.core is not None
        for action in actions:
            if isinstance(action, FetchAuxiliary):
                self.fetch_auxiliary(action)
            elif not isinstance(action, PartitionDelayed | PartitionFailed):
                try:
                    apply_action(action, cast(PartitionLog, action.partition.log), NOW_MS)
                except KafkaError as error:
                    self.told = error.code
                    self.core.on_action_failed(action, error, self._scenario.now_ms)
                else:
                    self.core.on_action_performed(action)

    def fetch_auxiliary(self, action: FetchAuxiliary) -> None:
        """Brokers without a remote tier never do."""
        raise AssertionError(action)


class Scenario:
    """One text, run line by line; `commands` are tried in their order."""

    broker_type: ClassVar[type[ScenarioBroker]] = ScenarioBroker
    topic_configs: ClassVar[dict[str, str]] = {}
    commands: ClassVar[list[tuple[str, Callable[..., None]]]]

    def __init__(self, text: str, disabled: SafeguardSet = NONE_DISABLED) -> None:
        self.lines = text.splitlines()
        self.disabled = disabled
        self.fetch_version = 18
        self.history: list[list[MetadataRecord]] = []
        self.brokers: dict[str, ScenarioBroker] = {}
        self.acked: list[str] = []
        self.waiting: list[tuple[ScenarioBroker, int, str]] = []
        self.now_ms = NOW_MS

    @classmethod
    def of(cls, path: Path, disabled: SafeguardSet = NONE_DISABLED) -> Scenario:
        """The scenario of a file."""
        return cls(path.read_text(), disabled)

    def run(self) -> None:
        """All lines; AssertionError names the line that does not hold."""
        with without(self.disabled):
            self._run_lines()

    def _run_lines(self) -> None:
        for number, line in enumerate(self.lines, start=1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            try:
                self._run(text)
                self._collect_answers()
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
        raise AssertionError("this is no command")

    # -- the cluster

    def create(self, letters: str, minimum: str) -> None:
        """`replicas A B C, min isr 2`"""
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
            broker.hear(1)

    def old_fetches(self) -> None:
        """Truncation by OffsetForLeaderEpoch."""
        self.fetch_version = 11

    def _publish(self, *records: MetadataRecord, heard_by: str = "") -> None:
        self.history.append(list(records))
        letters = heard_by.split() or [each for each, broker in self.brokers.items() if broker.replicas]
        for letter in letters:
            broker = self.brokers[letter]
            broker.hear(len(self.history) - broker.heard)

    def _ids(self, letters: str) -> tuple[int, ...]:
        return tuple(self.brokers[letter].id for letter in letters.split())

    def elect(self, letter: str, isr: str, heard_by: str) -> None:
        """A new leader in a new epoch."""
        record = PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            leader=self.brokers[letter].id,
            isr=self._ids(isr) if isr else None,
        )
        self._publish(record, heard_by=heard_by)

    def change_isr(self, isr: str) -> None:
        """The controller changes the ISR."""
        self._publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=self._ids(isr)))

    def fence(self, letter: str) -> None:
        """The controller has not heard of it."""
        broker = self.brokers[letter]
        self._publish(FenceBrokerRecord(id=broker.id, epoch=broker.epoch))

    def hear(self, letter: str, at_once: str) -> None:
        """Metadata that was late."""
        broker = self.brokers[letter]
        broker.hear(len(self.history) - broker.heard if at_once else 1)

    def grant(self, letter: str) -> None:
        """The controller accepts the ISR that was asked for."""
        broker = self.brokers[letter]
        partition, proposal = broker.up.proposals.made[-1]
        isr = tuple(member.broker_id for member in proposal.members)
        refused = self._why_refused(proposal)
        assert refused is None, refused
        answer = CommittedIsr(
            leader=broker.id,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch + 1,
            isr=isr,
        )
        partition.on_isr_response(proposal, answer)
        self._publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=isr))

    def _why_refused(self, proposal: IsrProposal) -> str | None:
        """What the controller has against a proposal."""
        known = next(b for b in self.brokers.values() if b.replicas and b.heard == len(self.history))
        image = known.up.image
        placed = image.topics_by_name[TOPIC].partitions[0]
        if proposal.partition_epoch != placed.partition_epoch:
            return f"partition epoch {proposal.partition_epoch}, it is {placed.partition_epoch}"
        for member, epoch in proposal.members:
            broker = image.brokers[member]
            if not broker.is_active:
                return f"broker {member} is fenced"
            if epoch not in (-1, broker.epoch):
                return f"broker {member} was at epoch {epoch}, is at {broker.epoch}"
        return None

    def refuse(self, letter: str, code: str) -> None:
        """The controller does not."""
        partition, proposal = self.brokers[letter].up.proposals.made[-1]
        partition.on_isr_response(proposal, ErrorCode[code])

    # -- brokers

    def flush(self, letter: str) -> None:
        """Make the log durable."""
        self.brokers[letter].partition.log.flush(NOW_MS)
        write_checkpoint(self.brokers[letter].up.logs, CheckpointKind.RECOVERY_POINT)

    def checkpoint(self, letter: str) -> None:
        """Write the high watermark down."""
        write_checkpoint(self.brokers[letter].up.logs, CheckpointKind.HIGH_WATERMARK)

    def kill(self, letter: str) -> None:
        """The process ends; the machine goes on."""
        self._stop(letter, Survival.KEEP_ALL)

    def cut_power(self, letter: str) -> None:
        """What was not synced is gone."""
        self._stop(letter, Survival.LOSE_UNSYNCED)

    def wipe(self, letter: str) -> None:
        """A new disk."""
        self._stop(letter, Survival.KEEP_ALL)
        self.brokers[letter].fs = CrashFileSystem()

    def _stop(self, letter: str, survival: Survival) -> None:
        broker = self.brokers[letter]
        broker.fs = broker.fs.crash(survival)
        broker.lost_request = broker.request
        broker.replicas = broker.core = None
        self.waiting = [each for each in self.waiting if each[0] is not broker]

    def damage(self, letter: str) -> None:
        """The medium has failed."""
        self.brokers[letter].fs.flip_bit(f"/data/{T0}/{0:020d}.log", 65 * 8)

    def start(self, letter: str) -> None:
        """A new incarnation."""
        broker = self.brokers[letter]
        broker.epoch += 100
        broker.boot()
        self._publish(_registration(broker))

    def pass_ms(self, milliseconds: str) -> None:
        """Time goes by."""
        self.now_ms += int(milliseconds)
        for broker in self.brokers.values():
            if broker.replicas is not None and T0 in broker.replicas.manager.partitions:
                broker.replicas.clock.now_ms = self.now_ms
                broker.partition.check_isr()

    # -- records

    def write(self, letter: str, values: str) -> None:
        """Acks=1."""
        for value in _spelled_out(values.split()):
            self.brokers[letter].partition.append(batch([value]), 1, NOW_MS)

    def produce(self, letter: str, values: str) -> None:
        """Acks=all."""
        broker = self.brokers[letter]
        for value in _spelled_out(values.split()):
            info = broker.partition.append(batch([value]), -1, NOW_MS)
            self.waiting.append((broker, info.last_offset + 1, value))

    def produce_batch(self, letter: str, values: str) -> None:
        """Acks=all, all in one."""
        broker, spelled_out = self.brokers[letter], _spelled_out(values.split())
        info = broker.partition.append(batch(spelled_out), -1, NOW_MS)
        self.waiting += [(broker, info.last_offset + 1, value) for value in spelled_out]

    def _collect_answers(self) -> None:
        still = []
        for broker, required, value in self.waiting:
            code = broker.partition.commit_outcome(required)
            if code is ErrorCode.NONE:
                self.acked.append(value)
            elif code is None:
                still.append((broker, required, value))
        self.waiting = still

    def fetch(self, letter: str) -> None:
        """Ask, handle, deliver."""
        self.ask(letter)
        self.handle(letter)
        self.deliver(letter)

    def ask(self, letter: str) -> None:
        """The request is on its way."""
        broker = self.brokers[letter]
        core = broker.core
        assert core is not None, f"{letter} does not follow"
        self.now_ms += 2_000 if core.next_ready_ms(0) else 0
        now_ms = self.now_ms
        broker.request = (
            core.build_epoch_request(now_ms)
            or core.build_offsets_request(now_ms)
            or core.build_fetch(now_ms, broker.epoch)
        )

    def handle(self, letter: str) -> None:
        """The leader answers; without an answer the connection is lost."""
        broker = self.brokers[letter]
        leader = next(b for b in self.brokers.values() if b.id == broker.partition.leader_id)
        broker.answer = None
        if broker.request is not None and leader.replicas is not None:
            broker.answer = leader.connection.handle(broker.request)
            broker.told = _error_of(broker.answer)

    def late(self, letter: str) -> None:
        """A request of the past arrives."""
        broker = self.brokers[letter]
        leader = next(b for b in self.brokers.values() if b.id == broker.partition.leader_id)
        assert broker.lost_request is not None
        broker.told = _error_of(leader.connection.handle(broker.lost_request))

    def deliver(self, letter: str) -> None:
        """The answer is there."""
        broker = self.brokers[letter]
        core, answer = broker.core, broker.answer
        assert core is not None
        if isinstance(answer, FetchResponse):
            broker.perform(core.on_fetch(answer, self.now_ms))
        elif isinstance(answer, OffsetForLeaderEpochResponse):
            broker.perform(core.on_epochs(answer, self.now_ms))
        elif isinstance(answer, ListOffsetsResponse):
            broker.perform(core.on_offsets(answer, self.now_ms))
        elif broker.request is not None:
            core.on_fetch_failed(self.now_ms)
        broker.request = broker.answer = None

    def sync(self) -> None:
        """Everybody fetches until nothing changes any more."""
        before: object = None
        for _ in range(_ROUNDS_MAX):
            now = [self._state(broker) for broker in self.brokers.values() if broker.core]
            if now == before:
                return
            before = now
            # As many as there are questions before anything changes.
            for _ in range(6):
                for letter, broker in self.brokers.items():
                    if broker.core is not None and broker.replicas is not None:
                        self.fetch(letter)
        raise AssertionError("it does not come to rest")

    def _state(self, broker: ScenarioBroker) -> object:
        log = broker.partition.log
        followed = None if broker.core is None else broker.core.partitions.get(T0)
        doing = None if followed is None else followed.state
        return entries_of(log), log.high_watermark, log.log_start_offset, len(self.history), doing

    # -- what is looked at

    def _check(self, words: list[str]) -> None:
        """One line that begins with `>`."""
        kind = words[0]
        if kind == "acked":
            assert self.acked == _spelled_out(words[1:]), f"acknowledged were {self.acked}"
        elif kind == "told":
            told = self.brokers[words[1]].told
            assert told is not None and told.name == words[2], f"{words[1]} was told {told!r}"
        elif kind == "unavailable":
            assert T0 not in self.brokers[words[1]].up.manager.partitions, "it is there"
        elif kind == "refused":
            made = self.brokers[words[1]].up.proposals.made
            assert made and self._why_refused(made[-1][1]) is not None, "the controller would accept it"
        elif kind == "produce":
            self._check_refusal(words[1], words[2], words[3])
        elif kind == "asks":
            self._check_proposal(words[1], words[3:])
        elif kind in ("consumer", "epoch"):
            self._check_reader(kind, " ".join(words[1:]))
        elif kind == "isr":
            broker = next(b for b in self.brokers.values() if b.replicas and b.heard == len(self.history))
            isr = broker.up.image.topics_by_name[TOPIC].partitions[0].isr
            assert isr == self._ids(" ".join(words[1:])), f"the ISR is {isr}"
        elif kind == "epochs":
            entries = self.brokers[words[1]].partition.log.leader_epochs.entries
            told_entries = [f"{epoch}:{start}" for epoch, start in entries]
            assert told_entries == words[2:], f"they are {told_entries}"
        else:
            self._check_log(self.brokers[kind].partition.log, words[1:])

    def _check_reader(self, kind: str, text: str) -> None:
        if kind == "consumer":
            letter, offset, last, current, wanted = consumer_line(text)
            told = consumed(self.brokers[letter].up, TOPIC_ID, T0, offset, last, current)
        else:
            letter, epoch, current, wanted = epoch_line(text)
            told = end_of_epoch(self.brokers[letter].up, T0, epoch, current)
        assert told == wanted, f"it is {told}"

    def _check_proposal(self, letter: str, isr: list[str]) -> None:
        proposal = self.brokers[letter].partition.pending_isr
        asked = "nothing" if proposal is None else tuple(member.broker_id for member in proposal.members)
        wanted = "nothing" if isr == ["nothing"] else self._ids(" ".join(isr))
        assert asked == wanted, f"it asks for {asked}"

    def _check_refusal(self, letter: str, value: str, code: str) -> None:
        try:
            self.produce(letter, value)
        except KafkaError as error:
            assert error.code.name == code, f"it is {error.code.name}"
        else:
            raise AssertionError("it is accepted")

    def _check_log(self, log: PartitionLog, words: list[str]) -> None:
        found = entries_of(log)
        for name, value in (("hw", log.high_watermark), ("start", log.log_start_offset)):
            if name in words:
                at = words.index(name)
                assert int(words[at + 1]) == value, f"{name} is {value}, the log {found}"
                del words[at : at + 2]
        assert found == _spelled_out(words), f"the log is {found}, high watermark {log.high_watermark}"


def entries_of(log: PartitionLog) -> list[str]:
    """All local records as value@epoch."""
    found: list[str] = []
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
            found += [f"{value}@{header.partition_leader_epoch}" for value in values]
            offset = header.next_offset
    return found


def _spelled_out(words: list[str]) -> list[str]:
    """`m3..m5@1` as m3@1 m4@1 m5@1."""
    found = []
    for word in words:
        match = re.fullmatch(r"([a-z]+)(\d+)\.\.\1(\d+)(@\d+)?", word)
        if match is None:
            found.append(word)
        else:
            name, first, last, epoch = match.groups(default="")
            found += [f"{name}{number}{epoch}" for number in range(int(first), int(last) + 1)]
    return found


def _registration(broker: ScenarioBroker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=UUID(int=broker.epoch),
        broker_epoch=broker.epoch,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
        fenced=False,
    )


def _error_of(answer: ApiMessage) -> ErrorCode:
    if isinstance(answer, FetchResponse):
        data = [data for topic in answer.responses for data in topic.partitions]
        return ErrorCode(data[0].error_code if data else answer.error_code)
    topics: Any = answer.topics  # type: ignore[attr-defined]
    return ErrorCode(topics[0].partitions[0].error_code)


_L = r"([A-Z])"
_LS = r"([A-Z](?: [A-Z])*)"
Scenario.commands = [
    (rf"replicas {_LS}, min isr (\d+)", Scenario.create),
    (r"old fetches", Scenario.old_fetches),
    (rf"produce {_L} (.+)", Scenario.produce),
    (rf"write {_L} (.+)", Scenario.write),
    (rf"batch {_L} (.+)", Scenario.produce_batch),
    (rf"late {_L}", Scenario.late),
    (rf"fetch {_L}", Scenario.fetch),
    (rf"ask {_L}", Scenario.ask),
    (rf"handle {_L}", Scenario.handle),
    (rf"deliver {_L}", Scenario.deliver),
    (r"sync", Scenario.sync),
    (r"pass (\d+) ms", Scenario.pass_ms),
    (rf"elect {_L}(?: isr {_LS})?(?: heard by {_LS})?", Scenario.elect),
    (rf"isr {_LS}", Scenario.change_isr),
    (rf"fence {_L}", Scenario.fence),
    (rf"hear {_L}( at once)?", Scenario.hear),
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
