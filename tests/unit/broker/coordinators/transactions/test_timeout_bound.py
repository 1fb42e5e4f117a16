"""How long a transaction that its producer does not end may stay open while its coordinator moves.

The bound is transaction.timeout.ms, the interval of the check, and one failover. The time is virtual.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import transaction_config
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import loop_iterations
from tests.support.transactions.coordinator import ID, A
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.service import TransactionPorts, TransactionService

TIMEOUT_MS = 20_000
INTERVAL_MS = 10_000
FAILOVER_MS = 9_000
STEP_MS = 500
NODES = 3
CONFIG = transaction_config(transaction_abort_timed_out_transaction_cleanup_interval_ms=INTERVAL_MS)


class Term(NamedTuple):
    """One coordinator serves for a while; then there is none until the next has loaded the partition."""

    serves_ms: int
    gone_ms: int


class Coordinators:
    """The nodes of a cluster, of which one at a time leads the only partition of the transaction log."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.markings: list[PreparedTransaction] = []
        self._log = MemoryStateLog(1)
        self._epoch = 0
        self._nodes = [self._node() for _ in range(NODES)]

    def _node(self) -> TransactionService:
        return TransactionService(
            CONFIG,
            self._log,
            self.time,
            self.time,
            TransactionPorts(
                leader_epoch=lambda _: self._epoch,
                transaction_version=lambda: 2,
                new_producer_id=self._new_id,
                send_markers=self.markings.append,
            ),
        )

    async def _new_id(self) -> int:
        return 100

    def start(self, phases_ms: list[int]) -> None:
        """Start the nodes one after the other: their regular checks come at different times."""
        for node, phase_ms in zip(self._nodes, phases_ms, strict=True):
            self.time.pass_time(phase_ms)
            node.start()

    async def stop(self) -> None:
        for node in self._nodes:
            await node.stop()

    async def lead(self) -> TransactionService:
        """Have the next node load the partition."""
        self._epoch += 1
        node = self._nodes[self._epoch % NODES]
        node.on_leadership(0)
        await loop_iterations()
        return node

    async def pass_time(self, duration_ms: int) -> None:
        for _ in range(0, duration_ms, STEP_MS):
            self.time.pass_time(STEP_MS)
            await loop_iterations(3)


async def open_for_ms(phases_ms: list[int], terms: list[Term]) -> int:
    """Return how long an abandoned transaction is open before its abort is decided, within the terms."""
    nodes = Coordinators()
    nodes.start(phases_ms)
    try:
        node = await nodes.lead()
        producer = await node.init_producer(ID, TIMEOUT_MS, None)
        await node.add_partitions(ID, producer, [A], 2)
        began_ms = nodes.time.monotonic_ms()
        for term in terms:
            for _ in range(0, term.serves_ms, STEP_MS):
                if nodes.markings:
                    break
                await nodes.pass_time(STEP_MS)
            if nodes.markings:
                break
            node.on_resignation(0)
            await nodes.pass_time(term.gone_ms)
            node = await nodes.lead()
        return nodes.time.monotonic_ms() - began_ms
    finally:
        await nodes.stop()


steps = st.integers(1, 30).map(lambda count: count * STEP_MS)
terms = st.builds(Term, steps, st.integers(1, FAILOVER_MS // STEP_MS).map(lambda count: count * STEP_MS))
phases = st.lists(st.integers(0, INTERVAL_MS), min_size=NODES, max_size=NODES)


# As observed: a kill every 15 s, and 9 s until the next coordinator serves.
@example([0, 1_000, 1_000], [Term(6_000, 9_000)] * 10)
@given(phases, st.lists(terms, min_size=150, max_size=150))
@settings(max_examples=25, deadline=None)
def test_a_transaction_is_aborted_within_timeout_interval_and_one_failover(
    phases_ms: list[int], terms: list[Term]
) -> None:
    taken_ms = asyncio.run(open_for_ms(phases_ms, terms))
    assert TIMEOUT_MS < taken_ms <= TIMEOUT_MS + INTERVAL_MS + FAILOVER_MS + STEP_MS


def test_without_a_failover_a_transaction_is_aborted_within_timeout_and_interval() -> None:
    taken_ms = asyncio.run(open_for_ms([3_000, 0, 0], [Term(60_000, STEP_MS)]))
    assert taken_ms <= TIMEOUT_MS + INTERVAL_MS + STEP_MS
