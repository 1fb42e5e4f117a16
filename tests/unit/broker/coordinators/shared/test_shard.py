"""Commands whose records are appended together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.groups.table_coordinator import COMMIT_TIMEOUT_MS, Entry, TableShard
from tests.support.loops.yields import loop_iterations
from tidelog.broker.coordinators.shared.append_batch import RECORDS_PER_BATCH_MAX
from tidelog.broker.coordinators.shared.append_linger import ADAPTIVE_LINGER, NO_LINGER
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.protocol.errors import ErrorCode, KafkaError

NONE = ErrorCode.NONE
LINGER_MS = 7


async def test_the_commands_of_one_iteration_are_one_batch_and_complete_in_their_order() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    for value in ("a", "b", "c"):
        shard.put_batched("k", value)
    assert (shard.appended(), shard.results) == ([], [])
    await loop_iterations(1)
    assert shard.appended() == [["a", "b", "c"]]
    assert shard.results == [("a", NONE), ("b", NONE), ("c", NONE)]
    assert shard.table.entries == {"k": "c"}


async def test_a_lone_command_waits_for_no_time_with_the_adaptive_linger() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    shard.put_batched("k", "a")
    await loop_iterations(1)
    assert shard.results == [("a", NONE)]
    shard.put_batched("k", "b")
    await loop_iterations(1)
    assert shard.appended() == [["a"], ["b"]]


async def test_without_linger_each_command_is_appended_at_once() -> None:
    shard = TableShard(NO_LINGER)
    for value in ("a", "b"):
        shard.put_batched("k", value)
    assert shard.appended() == [["a"], ["b"]]
    assert shard.results == [("a", NONE), ("b", NONE)]


async def test_a_batch_is_appended_when_its_linger_has_passed_since_the_first_command() -> None:
    shard = TableShard(LINGER_MS)
    shard.put_batched("k", "a")
    shard.time.pass_time(LINGER_MS - 1)
    shard.put_batched("k", "b")
    await loop_iterations()
    assert shard.results == []
    shard.time.pass_time(1)
    assert shard.appended() == [["a", "b"]]
    assert shard.results == [("a", NONE), ("b", NONE)]


async def test_the_linger_of_a_batch_does_not_end_the_next_one() -> None:
    shard = TableShard(LINGER_MS)
    shard.put_batched("k", "a")
    shard.time.pass_time(LINGER_MS - 1)
    shard.shard.flush_batch()
    shard.put_batched("k", "b")
    shard.time.pass_time(LINGER_MS - 1)
    assert shard.appended() == [["a"]]
    shard.time.pass_time(1)
    assert shard.appended() == [["a"], ["b"]]


@pytest.mark.parametrize("linger_ms", [ADAPTIVE_LINGER, LINGER_MS])
async def test_other_commands_see_the_batched_ones_before_them(linger_ms: int) -> None:
    shard = TableShard(linger_ms)
    shard.put_batched("k", "a")
    assert shard.shard.coordinator.entries == {"k": "a"}
    shard.put_batched("k", "b")
    shard.put("k", "c")
    assert shard.appended() == [["a"], ["b"], ["c"]]
    assert shard.results == [("a", NONE), ("b", NONE), ("c", NONE)]


async def test_a_write_of_a_transaction_follows_the_batched_commands_before_it() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    replayed: list[int] = []

    def append() -> AppendedRecords:
        return shard.log.append(0, EncodedRecords([(b"k", b"of a transaction")]))

    shard.put_batched("k", "a")
    shard.shard.append_and_replay(append, replayed.append, 1, shard.on_completed("of a transaction"))
    shard.put_batched("k", "b")
    await loop_iterations(1)
    assert shard.appended() == [["a"], ["of a transaction"], ["b"]]
    assert replayed == [1]
    assert [name for name, _ in shard.results] == ["a", "of a transaction", "b"]


async def test_a_command_without_records_completes_at_once() -> None:
    shard = TableShard(LINGER_MS)
    shard.put_batched("k", "a", count=0)
    assert shard.results == [("a", NONE)]


async def test_a_refused_command_does_not_affect_the_others_of_its_batch() -> None:
    shard = TableShard(ADAPTIVE_LINGER)

    def refuse(_: object) -> Outcome[None]:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    shard.put_batched("k", "a")
    with pytest.raises(KafkaError):
        shard.shard.perform_batched(refuse, shard.on_completed("refused"))
    shard.put_batched("k", "b")
    await loop_iterations(1)
    assert shard.results == [("a", NONE), ("b", NONE)]


async def test_a_command_sees_the_batched_ones_with_the_same_key() -> None:
    shard = TableShard(LINGER_MS)
    for key, text in (("k", "a"), ("l", "b"), ("k", "c"), ("k", "d")):
        shard.append_batched(key, text)
    shard.shard.flush_batch()
    assert shard.appended() == [["a", "b"], ["ac"], ["acd"]]
    assert shard.table.entries == {"k": "acd", "l": "b"}


async def test_each_part_of_a_long_command_sees_the_batched_commands_before_it() -> None:
    """A part that is computed from the state before them would overwrite them."""
    shard = TableShard(LINGER_MS)

    def copies() -> Iterator[Writes[Entry]]:
        for copy in ("copy 1", "copy 2"):
            yield Writes([(copy, shard.table.entries["k"])])

    shard.put_batched("k", "a")
    parts = copies()
    for text in ("b", "c"):
        writes = shard.shard.next_part(parts)
        assert writes is not None
        shard.shard.perform(writes)
        shard.put_batched("k", text)
    assert shard.shard.next_part(parts) is None
    assert shard.table.entries == {"k": "c", "copy 1": "a", "copy 2": "b"}


async def test_a_failed_append_fails_every_command_of_the_batch_and_changes_nothing() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    shard.put_batched("k", "before")
    await loop_iterations(1)
    shard.log.append_error = error = ErrorCode.NOT_ENOUGH_REPLICAS
    for value in ("a", "b"):
        shard.put_batched("k", value)
    await loop_iterations(1)
    assert shard.results == [("before", NONE), ("a", error), ("b", error)]
    assert shard.shard.coordinator.entries == {"k": "before"}
    shard.log.append_error = None
    shard.put_batched("k", "c")
    await loop_iterations(1)
    assert shard.appended() == [["before"], ["c"]]
    assert shard.diverged_count == 0


async def test_a_batch_that_is_never_committed_fails_every_command_and_is_loaded_again() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    shard.log.holds_commits = True
    for value in ("a", "b"):
        shard.put_batched("k", value)
    await loop_iterations(1)
    assert shard.results == []
    shard.log.fail_commits(error := ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await loop_iterations(2)
    assert shard.results == [("a", error), ("b", error)]
    assert shard.diverged_count == 1


async def test_a_batch_that_is_not_committed_in_time_gets_one_response() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    shard.log.holds_commits = True
    shard.put_batched("k", "a")
    await loop_iterations(1)
    shard.time.pass_time(COMMIT_TIMEOUT_MS - 1)
    assert shard.results == []
    shard.time.pass_time(1)
    assert shard.results == [("a", ErrorCode.REQUEST_TIMED_OUT)]
    shard.log.commit_all()
    await loop_iterations(2)
    assert shard.results == [("a", ErrorCode.REQUEST_TIMED_OUT)]
    assert shard.table.committed_offset == 1


async def test_the_time_limit_of_a_committed_batch_is_cancelled() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    shard.log.holds_commits = True
    shard.put_batched("k", "a")
    await loop_iterations(1)
    shard.log.commit_all()
    await loop_iterations(2)
    assert shard.time._timers.next_deadline_ms() is None


async def test_a_closed_shard_appends_nothing_and_refuses_the_commands_in_their_order() -> None:
    shard = TableShard(LINGER_MS)
    shard.log.holds_commits = True
    shard.put("k", "in flight")
    for value in ("a", "b"):
        shard.put_batched("k", value)
    shard.shard.close()
    refused = ErrorCode.NOT_COORDINATOR
    assert shard.results == [("in flight", refused), ("a", refused), ("b", refused)]
    shard.time.pass_time(LINGER_MS)
    await loop_iterations()
    assert shard.appended() == [["in flight"]]


async def test_a_log_that_cannot_be_appended_to_refuses_a_command_at_once() -> None:
    shard = TableShard(LINGER_MS)
    shard.log.lost = error = ErrorCode.KAFKA_STORAGE_ERROR
    shard.put_batched("k", "a")
    assert shard.results == [("a", error)]


async def test_a_batch_is_not_larger_than_the_log_allows() -> None:
    shard = TableShard(LINGER_MS)
    shard.log.largest_batch_bytes = 500
    values = [str(number) * 100 for number in range(5)]
    for value in values:
        shard.put_batched("k", value)
    shard.shard.flush_batch()
    assert shard.appended() == [values[:3], values[3:]]
    assert max(map(len, shard.log.batches[0])) <= 500
    assert shard.results == [(value, NONE) for value in values]


async def test_a_command_that_is_too_large_for_the_log_fails_alone() -> None:
    shard = TableShard(LINGER_MS)
    shard.log.largest_batch_bytes = 500
    large = "l" * 600
    for value in ("a", large, "b"):
        shard.put_batched("k", value)
    shard.shard.flush_batch()
    assert shard.appended() == [["a"], ["b"]]
    assert shard.results == [("a", NONE), (large, ErrorCode.MESSAGE_TOO_LARGE), ("b", NONE)]


async def test_a_batch_collects_a_bounded_number_of_records() -> None:
    shard = TableShard(LINGER_MS)
    count = 2 * RECORDS_PER_BATCH_MAX + 3
    for number in range(count):
        shard.put_batched("k", str(number))
    assert [len(batch) for batch in shard.appended()] == [RECORDS_PER_BATCH_MAX] * 2
    assert len(shard.results) == 2 * RECORDS_PER_BATCH_MAX
    shard.shard.flush_batch()
    assert [name for name, _ in shard.results] == [str(number) for number in range(count)]


async def test_a_command_with_many_records_is_appended_at_once_and_whole() -> None:
    shard = TableShard(LINGER_MS)
    shard.put_batched("k", "a")
    shard.put_batched("k", "many", count=RECORDS_PER_BATCH_MAX + 1)
    assert [len(batch) for batch in shard.appended()] == [RECORDS_PER_BATCH_MAX + 2]
    assert shard.results == [("a", NONE), ("many", NONE)]


class CountedKey(bytes):
    """A key that counts how often the lengths of keys are read."""

    length_reads = 0

    def __len__(self) -> int:
        CountedKey.length_reads += 1
        return super().__len__()


async def test_a_command_that_is_too_large_is_refused_without_a_visit_to_its_records() -> None:
    """To add up the sizes of 40,000 records, twice, blocked the event loop for 10 ms."""
    shard = TableShard(ADAPTIVE_LINGER)
    shard.log.largest_batch_bytes = 1_000_000
    entries = [("k", "v")] * 3_000
    encoded = EncodedRecords((CountedKey(b"k" * 1_000), b"v") for _ in entries)
    CountedKey.length_reads = 0
    writes = Writes(entries, encoded=encoded)
    shard.shard.perform_batched(lambda _: Outcome(None, writes), shard.on_completed("too large"))
    assert shard.results == [("too large", ErrorCode.MESSAGE_TOO_LARGE)]
    assert (shard.appended(), CountedKey.length_reads) == ([], 0)


async def test_records_in_flight_are_not_kept_in_memory() -> None:
    shard = TableShard(ADAPTIVE_LINGER)
    shard.log.holds_commits = True
    shard.put_batched("k", "a")
    batch = shard.shard._linger._batch
    assert batch is not None
    await loop_iterations(1)
    assert (batch.records, batch.encoded.records, batch.is_complete) == ([], [], False)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        ("committed", NONE),
        ("lost", ErrorCode.NOT_COORDINATOR),
        ("closed", ErrorCode.NOT_COORDINATOR),
        ("refused", ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_a_response_that_cannot_be_sent_does_not_affect_the_other_commands(
    outcome: str, error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    """The callback of a command may send its response, and its connection may fail."""

    def fail(error: ErrorCode) -> None:
        raise OSError(f"the test fails to send {error.name}")

    shard = TableShard(LINGER_MS)
    shard.log.holds_commits = True
    shard.shard.perform(Writes([("k", "alone")]), fail)
    shard.shard.perform_batched(lambda _: Outcome(None, Writes([("k", "batched")])), fail)
    shard.put_batched("k", "a")
    if outcome == "refused":
        shard.log.append_error = error
    shard.put("k", "b")
    if outcome == "committed":
        waiting = asyncio.ensure_future(shard.shard.wait_for_commits())
        await loop_iterations(1)
        shard.log.commit_all()
        await waiting
    elif outcome == "lost":
        shard.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await loop_iterations(2)
        assert shard.diverged_count == 1
    elif outcome == "closed":
        shard.shard.close()
    assert shard.results == [("a", error), ("b", error)]
    assert "Cannot pass on the result" in caplog.text


async def test_a_defect_of_the_replay_fails_the_commands_of_the_batch() -> None:
    """Without that, their clients would wait forever."""
    shard = TableShard(ADAPTIVE_LINGER)
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    shard.table.fails_on = "a"
    shard.put_batched("k", "a")
    await loop_iterations(2)
    assert shard.results == [("a", ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert [type(error) for error in reported] == [AssertionError]


async def test_a_defect_at_one_deadline_does_not_stop_the_later_deadlines() -> None:
    shard = TableShard(NO_LINGER)
    now_ms = shard.time.monotonic_ms()
    shard.table.fails_on = "defect"
    shard.table.deadlines = [
        (now_ms + 5, ("k", "defect")),
        (now_ms + 5, ("l", "same")),
        (now_ms + 9, ("m", "later")),
    ]
    shard.shard.schedule_tick()
    shard.time.pass_time(20)
    await loop_iterations()
    assert shard.table.entries == {"l": "same", "m": "later"}


async def test_batched_records_count_as_uncommitted_until_they_are_committed() -> None:
    shard = TableShard(LINGER_MS)
    shard.log.holds_commits = True
    assert not shard.shard.has_uncommitted
    shard.put_batched("k", "a")
    assert shard.shard.has_uncommitted
    shard.log.commit_all()
    await shard.shard.wait_for_commits()
    assert not shard.shard.has_uncommitted
