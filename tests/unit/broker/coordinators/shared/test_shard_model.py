"""Batched and other commands of one shard in random order, compared with a naive model.

Whatever the order is, the log has the records in the order of the commands, the state is that of the log, a
command that reads sees all commands before it, and every command has one result, which the log confirms.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.groups.table_coordinator import COMMIT_TIMEOUT_MS, Entry, TableShard
from tests.support.loops.yields import loop_iterations
from tidelog.broker.coordinators.shared.append_linger import ADAPTIVE_LINGER, NO_LINGER
from tidelog.protocol.errors import ErrorCode

LINGER_MS = 5
APPEND_ERRORS = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]

ACTIONS = st.one_of(
    st.tuples(st.just("batched"), st.sampled_from("xy")),
    st.tuples(st.just("batched"), st.sampled_from("xy")),
    st.tuples(st.just("written"), st.sampled_from("xy")),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("iteration"), st.none()),
    st.tuples(st.just("time"), st.sampled_from([1, LINGER_MS, COMMIT_TIMEOUT_MS])),
    st.tuples(st.just("append error"), st.none() | st.sampled_from(APPEND_ERRORS)),
    st.tuples(st.just("commits are held"), st.booleans()),
    st.tuples(st.just("commits fail"), st.none()),
)


@dataclass
class Model:
    """The commands in their order, and what must be true of the shard for any division into batches."""

    commands: list[Entry] = field(default_factory=list)

    def check(self, shard: TableShard) -> None:
        """Check the results and the log against the commands."""
        names = [name for name, _ in shard.results]
        assert len(set(names)) == len(names), "every command gets one result"
        appended = [value for batch in shard.appended() for value in batch]
        order = [value for _, value in self.commands]
        assert appended == [value for value in order if value in set(appended)], "the log has their order"
        for name, error in shard.results:
            if error is ErrorCode.NONE or error is ErrorCode.REQUEST_TIMED_OUT:
                assert name in appended
            elif error in APPEND_ERRORS:
                assert name not in appended, "what failed is not in the log"
        successes = [name for name, error in shard.results if error is ErrorCode.NONE]
        assert successes == [value for value in appended if value in set(successes)]
        if not shard.diverged_count:
            assert shard.table.entries == shard.replayed_log(), "the state is that of the log"


async def _run(linger_ms: int, actions: list[tuple[str, object]]) -> None:
    shard, model = TableShard(linger_ms), Model()
    for number, (action, argument) in enumerate(actions):
        value = str(number)
        if shard.diverged_count:
            break
        if action == "batched":
            model.commands.append((str(argument), value))
            shard.put_batched(str(argument), value)
        elif action == "written":
            model.commands.append((str(argument), value))
            shard.put(str(argument), value)
        elif action == "read":
            _check_read(shard, model)
        elif action == "iteration":
            await loop_iterations(1)
        elif action == "time":
            assert isinstance(argument, int)
            shard.time.pass_time(argument)
        elif action == "append error":
            assert argument is None or isinstance(argument, ErrorCode)
            shard.log.append_error = argument
        elif action == "commits are held":
            shard.log.holds_commits = bool(argument)
            if not argument:
                shard.log.commit_all()
        elif action == "commits fail":
            shard.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        model.check(shard)
    shard.log.holds_commits = False
    shard.log.commit_all()
    shard.time.pass_time(LINGER_MS)
    await loop_iterations(5)
    model.check(shard)
    assert {name for name, _ in shard.results} == {value for _, value in model.commands}, "none is forgotten"


def _check_read(shard: TableShard, model: Model) -> None:
    """Check that a command that reads sees every command before it, except those that have failed."""
    entries = dict(shard.shard.coordinator.entries)
    failed = {name for name, error in shard.results if error in APPEND_ERRORS}
    expected = {key: value for key, value in model.commands if value not in failed}
    assert entries == expected


@settings(max_examples=300, deadline=None)
@given(
    linger_ms=st.sampled_from([ADAPTIVE_LINGER, NO_LINGER, LINGER_MS]),
    actions=st.lists(ACTIONS, max_size=40),
)
def test_batched_commands_have_the_results_of_commands_one_after_the_other(
    linger_ms: int, actions: list[tuple[str, object]]
) -> None:
    asyncio.run(_run(linger_ms, actions))
