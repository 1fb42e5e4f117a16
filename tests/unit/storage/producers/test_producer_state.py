"""Producer state compared with recorded results of Kafka's class, and tests of each rule."""

from __future__ import annotations

import pytest

from tests.support.batches.producer_headers import data_header, marker_header
from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.producers.open_transactions import CompletedTransaction
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

TRANSCRIPT = GOLDEN_FILES / "storage" / "producers.transcript"
HIGHEST_SEQUENCE = 2**31 - 1
PARTITION = TopicPartition("t", 0)
CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION


class Log:
    """The producers of one partition, with the part of a log that appends need."""

    def __init__(self, disk: CrashFileSystem | None = None, expiration_ms: int = 5000) -> None:
        self.disk = disk or CrashFileSystem()
        self.disk.makedirs("/t-0")
        self.producers = ProducerStateManager(PARTITION, self.disk, "/t-0", expiration_ms)
        self.end = 0
        self.high_watermark = 0

    def data(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        count: int = 1,
        *,
        transactional: bool = False,
        origin: AppendOrigin = CLIENT,
        timestamp: int = 0,
    ) -> BatchMetadata | None:
        header = data_header(
            producer_id, epoch, sequence, count, transactional=transactional, timestamp=timestamp
        )
        duplicate = self.producers.check(header, self.end, origin)
        if duplicate is None:
            assert self.producers.update(header, self.end) is None
            self.end += count
            self.producers.update_map_end_offset(self.end)
        return duplicate

    def marker(
        self,
        producer_id: int,
        epoch: int,
        *,
        coordinator_epoch: int = 0,
        abort: bool = False,
        version: int = 0,
        origin: AppendOrigin = COORDINATOR,
        timestamp: int = 0,
    ) -> tuple[CompletedTransaction, int] | None:
        """Append a marker; return the completed transaction and the last stable offset for the index."""
        header = marker_header(producer_id, epoch, timestamp)
        marker = EndTransactionMarker(abort, coordinator_epoch, timestamp)
        assert self.producers.check(header, self.end, origin, marker, transaction_version=version) is None
        completed = self.producers.update(header, self.end, marker)
        self.end += 1
        self.producers.update_map_end_offset(self.end)
        if completed is None:
            return None
        last_stable_offset = self.producers.transactions.last_stable_offset_after(completed)
        self.producers.transactions.complete(completed)
        return completed, last_stable_offset

    @property
    def first_unstable_offset(self) -> int | None:
        return self.producers.transactions.first_unstable_offset(self.high_watermark)


@pytest.fixture
def log() -> Log:
    return Log()


def expect_error(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


# -- Kafka's results


def show(value: object) -> str:
    return "none" if value is None else str(value)


def show_entry(entry: ProducerEntry | None) -> str:
    if entry is None:
        return "none"
    batches = ",".join(
        f"{one.first_sequence}-{one.last_sequence}@{one.first_offset}" for one in entry.batches
    )
    return (
        f"{entry.producer_id} {entry.producer_epoch} {entry.coordinator_epoch} {entry.last_timestamp} "
        f"{show(entry.transaction_first_offset)} [{batches}]"
    )


def perform(log: Log, operation: str, *words: str) -> str:
    """Perform one step of the transcript and return its result in the transcript's format."""
    try:
        if operation == "data":
            producer_id, epoch, sequence, count, transactional = map(int, words[:5])
            duplicate = log.data(
                producer_id,
                epoch,
                sequence,
                count,
                transactional=bool(transactional),
                origin=AppendOrigin[words[5]],
                timestamp=int(words[7]),
            )
            if duplicate is None:
                return "ok"
            return f"duplicate {duplicate.first_offset} {duplicate.last_offset} {duplicate.timestamp}"
        if operation == "marker":
            producer_id, epoch, coordinator_epoch, abort, version, _, timestamp = map(int, words)
            ended = log.marker(
                producer_id,
                epoch,
                coordinator_epoch=coordinator_epoch,
                abort=bool(abort),
                version=version,
                timestamp=timestamp,
            )
            if ended is None:
                return "ok"
            (_, first, last, is_aborted), last_stable_offset = ended
            return f"completed {first} {last} {int(is_aborted)} {last_stable_offset}"
    except KafkaError as error:
        return error.code.name
    if operation == "hw":
        log.high_watermark = int(words[0])
        return "ok"
    assert operation == "expire"
    log.producers.remove_expired(int(words[0]))
    return str(sorted(log.producers.producers)).replace(" ", "")


def test_results_equal_kafkas_producer_state_manager(log: Log) -> None:
    lines = [line for line in TRANSCRIPT.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 700
    for number, line in enumerate(lines, 1):
        command, _, rest = line.partition(" -> ")
        result, entry, unstable, undecided = rest.split(" | ")
        where = f"step {number}: {line}"
        operation, *words = command.split()
        assert perform(log, operation, *words) == result, where
        if entry != "none":
            assert show_entry(log.producers.producers.get(int(entry.split()[0]))) == entry, where
        assert show(log.first_unstable_offset) == unstable, where
        assert show(log.producers.transactions.first_undecided_offset) == undecided, where


# -- duplicates and order


def test_a_duplicate_batch_gets_its_first_offsets(log: Log) -> None:
    for sequence in range(0, 14, 2):
        assert log.data(1, 0, sequence, 2, timestamp=100 + sequence) is None
    for sequence in range(4, 14, 2):
        duplicate = log.data(1, 0, sequence, 2)
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (sequence, sequence + 1)
        assert duplicate.timestamp == 100 + sequence
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.data(1, 0, 2, 2)  # Only the last five batches are kept.
    assert log.end == 14


def test_a_batch_with_a_known_sequence_and_another_length_is_no_duplicate(log: Log) -> None:
    log.data(1, 0, 0, 5)
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.data(1, 0, 0, 4)


@pytest.mark.parametrize("sequence", [0, 4, 6, 2**31 - 1])
def test_a_skipped_or_repeated_sequence_is_out_of_order(log: Log, sequence: int) -> None:
    log.data(1, 0, 3, 2)
    with pytest.raises(KafkaError, match=f"sequence {sequence} of producer 1") as refusal:
        log.data(1, 0, sequence)
    assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.data(1, 0, 5) is None, "the refused batch has changed nothing"


def test_sequences_wrap_after_the_highest(log: Log) -> None:
    log.data(1, 0, HIGHEST_SEQUENCE - 2, 2)
    log.data(1, 0, HIGHEST_SEQUENCE, 3)
    duplicate = log.data(1, 0, HIGHEST_SEQUENCE, 3)
    assert duplicate is not None and duplicate.last_sequence == 1
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.data(1, 0, 0)
    assert log.data(1, 0, 2) is None
    exactly = Log()
    exactly.data(1, 0, HIGHEST_SEQUENCE, 1)
    assert exactly.data(1, 0, 0) is None


def test_kip_360_an_unknown_producer_may_start_with_any_sequence(log: Log) -> None:
    assert log.data(1, 5, 1234) is None
    assert log.data(1, 5, 1235) is None


# -- epochs


def test_a_new_epoch_starts_with_sequence_0_and_removes_earlier_batches(log: Log) -> None:
    log.data(1, 0, 0)
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.data(1, 1, 1)
    assert log.data(1, 1, 0) is None
    assert len(log.producers.producers[1].batches) == 1


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
def test_an_older_epoch_is_fenced(log: Log, origin: AppendOrigin) -> None:
    log.data(1, 3, 0)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.data(1, 2, 1, origin=origin)


def test_coordinator_batches_have_no_sequence(log: Log) -> None:
    assert log.data(1, 0, -1, origin=COORDINATOR) is None
    assert log.data(1, 0, -1, origin=COORDINATOR) is None


def test_batches_of_a_leader_are_accepted_unchecked(log: Log) -> None:
    log.data(1, 3, 7)
    assert log.data(1, 2, 99, origin=REPLICATION) is None
    assert log.producers.producers[1].producer_epoch == 2


def test_a_marker_with_a_higher_epoch_fences_the_producer(log: Log) -> None:
    log.data(1, 0, 0, transactional=True)
    log.marker(1, 1, abort=True)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.data(1, 0, 1, transactional=True)
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.data(1, 1, 1, transactional=True)
    assert log.data(1, 1, 0, transactional=True) is None


# -- markers


def test_a_marker_of_an_older_producer_or_coordinator_is_fenced(log: Log) -> None:
    log.data(1, 2, 0, transactional=True)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.marker(1, 1)
    log.marker(1, 2, coordinator_epoch=5)
    with expect_error(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        log.marker(1, 2, coordinator_epoch=4)
    assert log.marker(1, 2, coordinator_epoch=4, origin=REPLICATION) is None


def test_kip_890_a_marker_of_version_2_must_raise_the_epoch(log: Log) -> None:
    log.data(1, 2, 0, transactional=True)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.marker(1, 2, version=2)
    assert log.marker(1, 3, version=2) is not None
    assert log.marker(1, 3, version=2) is None, "the coordinator may repeat its marker"
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.marker(1, 2, version=2)


def test_kip_890_the_maximum_epoch_is_not_raised(log: Log) -> None:
    log.data(1, 2**15 - 1, 0, transactional=True)
    assert log.marker(1, 2**15 - 1, version=2) is not None


def test_an_emptied_control_batch_is_ignored(log: Log) -> None:
    header = marker_header(1, 0)
    assert log.producers.check(header, 0, COORDINATOR, None) is None
    assert log.producers.update(header, 0, None) is None
    assert (dict(log.producers.producers), log.first_unstable_offset) == ({}, None)


def test_a_transactional_batch_without_an_open_transaction_is_refused(log: Log) -> None:
    log.data(1, 0, 0, transactional=True)
    with expect_error(ErrorCode.INVALID_TXN_STATE):
        log.data(1, 0, 1)
    assert log.producers.has_open_transaction(1, 0)
    assert not log.producers.has_open_transaction(1, 1)
    assert not log.producers.has_open_transaction(2, 0)
    log.marker(1, 0)
    assert not log.producers.has_open_transaction(1, 0)
    assert log.data(1, 0, 1) is None


def test_a_marker_without_a_transaction_completes_nothing(log: Log) -> None:
    log.data(1, 0, 0)
    assert log.marker(1, 0) is None
    assert log.first_unstable_offset is None


# -- stable offsets


def test_offsets_are_unstable_until_the_marker_is_replicated(log: Log) -> None:
    log.data(9, 0, 0, 3)
    log.data(1, 0, 0, 2, transactional=True)
    assert log.first_unstable_offset == 3
    completed, last_stable_offset = log.marker(1, 0, abort=True) or pytest.fail("nothing completed")
    assert completed == CompletedTransaction(1, first_offset=3, last_offset=5, is_aborted=True)
    assert last_stable_offset == 6
    log.high_watermark = 5
    assert log.first_unstable_offset == 3, "the marker itself is not replicated yet"
    log.high_watermark = 6
    assert log.first_unstable_offset is None


def test_the_oldest_open_transaction_holds_the_stable_offset(log: Log) -> None:
    log.data(1, 0, 0, transactional=True)
    log.data(2, 0, 0, transactional=True)
    log.data(3, 0, 0, transactional=True)
    assert (log.marker(2, 0) or pytest.fail("nothing completed"))[1] == 0
    assert (log.marker(1, 0) or pytest.fail("nothing completed"))[1] == 2
    assert (log.first_unstable_offset, log.producers.transactions.first_undecided_offset) == (0, 2)
    log.high_watermark = log.end
    assert log.first_unstable_offset == 2


# -- expiry


def test_inactive_producers_expire_unless_a_transaction_is_open(log: Log) -> None:
    log.data(1, 0, 0, timestamp=1000)
    log.data(2, 0, 0, transactional=True, timestamp=1000)
    log.data(3, 0, 0, timestamp=1001)
    log.producers.remove_expired(5999)
    assert list(log.producers.producers) == [1, 2, 3]
    log.producers.remove_expired(6000)
    assert list(log.producers.producers) == [2, 3]
    assert log.data(1, 0, 77, timestamp=6000) is None, "an unknown producer may start with any sequence"


# -- snapshots and reloading


def snapshots(log: Log) -> list[int]:
    return [int(name[:20]) for name in log.disk.listdir("/t-0")]


def test_a_snapshot_is_taken_once_per_offset(log: Log) -> None:
    assert log.producers.take_snapshot() is None
    log.data(1, 0, 0, 5)
    assert log.producers.take_snapshot() == "/t-0/00000000000000000005.snapshot"
    assert log.producers.take_snapshot() is None
    assert snapshots(log) == [5]


def test_a_restart_starts_from_the_newest_snapshot(log: Log) -> None:
    log.data(1, 2, 0, 5, timestamp=10)
    log.data(2, 0, 0, transactional=True, timestamp=11)
    log.marker(3, 4, coordinator_epoch=6, timestamp=12)
    log.producers.take_snapshot()
    log.data(1, 2, 5)

    again = Log(log.disk)
    again.producers.truncate_and_reload(0, log.end, now_ms=20)
    assert again.producers.map_end_offset == 7
    assert again.producers.producers == {
        1: ProducerEntry(1, 2, -1, 10, None, [BatchMetadata(4, 4, 4, 10)]),
        2: ProducerEntry(2, 0, -1, 11, 5, [BatchMetadata(0, 5, 0, 11)]),
        3: ProducerEntry(3, 4, 6, 12, None, []),
    }
    assert again.first_unstable_offset == 5
    again.end = 7
    assert again.data(1, 2, 0, 5) is not None, "the last batch is still known as a duplicate"
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        again.data(1, 2, 6)
    assert again.data(1, 2, 5) is None


def test_expired_producers_are_not_loaded(log: Log) -> None:
    log.data(1, 0, 0, timestamp=0)
    log.data(2, 0, 0, transactional=True, timestamp=0)
    log.producers.take_snapshot()
    again = Log(log.disk)
    again.producers.truncate_and_reload(0, 2, now_ms=5000)
    assert list(again.producers.producers) == [2]


def test_truncation_restores_the_snapshot_below_the_new_end(log: Log) -> None:
    for sequence in range(4):
        log.data(1, 0, sequence * 10, 10)
        log.producers.take_snapshot()
    log.data(1, 0, 40, 10, transactional=True)
    log.producers.truncate_and_reload(0, 25, now_ms=0)
    assert snapshots(log) == [10, 20]
    assert (log.producers.map_end_offset, log.first_unstable_offset) == (20, None)
    assert log.producers.producers[1].last_sequence == 19


def test_a_reload_at_the_same_end_keeps_the_state_in_memory(log: Log) -> None:
    log.data(1, 0, 0, 10)
    log.producers.take_snapshot()
    log.data(2, 0, 0, 10)
    log.producers.truncate_and_reload(15, 20, now_ms=0)
    assert sorted(log.producers.producers) == [1, 2]
    assert snapshots(log) == [], "snapshots at or below the log start are not used"
    assert log.producers.take_snapshot() is not None


def test_a_log_without_snapshots_is_replayed_from_its_start(log: Log) -> None:
    log.producers.truncate_and_reload(100, 200, now_ms=0)
    assert (log.producers.map_end_offset, dict(log.producers.producers)) == (100, {})
    assert log.first_unstable_offset is None


def test_a_corrupt_snapshot_is_skipped(log: Log) -> None:
    log.data(1, 0, 0)
    older = log.producers.take_snapshot()
    log.data(1, 0, 1)
    newer = log.producers.take_snapshot()
    assert older and newer
    log.disk.flip_bit(newer, 100)
    again = Log(log.disk)
    again.producers.truncate_and_reload(0, 2, now_ms=0)
    assert (again.producers.map_end_offset, again.producers.producers[1].last_sequence) == (1, 0)
    assert snapshots(again) == [1]


def test_restarting_removes_producers_and_snapshots(log: Log) -> None:
    log.data(1, 0, 0, transactional=True)
    log.producers.take_snapshot()
    log.producers.truncate_fully_and_start_at(500)
    assert (log.producers.map_end_offset, dict(log.producers.producers), snapshots(log)) == (500, {}, [])
    assert log.first_unstable_offset is None
    assert log.first_unstable_offset is None


def test_a_moved_log_start_ends_transactions_below_it(log: Log) -> None:
    log.data(1, 0, 0, transactional=True)
    log.marker(1, 0)
    assert log.first_unstable_offset == 0
    log.producers.on_log_start_offset_incremented(2)
    assert log.first_unstable_offset is None
    log.producers.on_log_start_offset_incremented(50)
    assert log.producers.map_end_offset == 50


def test_entries_from_remote_storage_are_added_in_order(log: Log) -> None:
    later = ProducerEntry(2, 0, transaction_first_offset=70)
    earlier = ProducerEntry(1, 0, transaction_first_offset=30)
    log.producers.load_entries([later, earlier, ProducerEntry(3, 0)])
    assert log.first_unstable_offset == 30
