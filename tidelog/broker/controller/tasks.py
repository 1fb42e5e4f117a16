"""The periodic tasks of the active controller.

| task | interval |
|---|---|
| fence brokers without heartbeats | until the next session expires |
| make preferred replicas leaders | leader.imbalance.check.interval.seconds, if auto.leader.rebalance.enable |
| elect unclean leaders where topics allow it | unclean.leader.election.interval.ms |
| remove expired delegation tokens | delegation.token.expiry.check.interval.ms, if they are enabled |
| write a record that changes nothing | metadata.max.idle.interval.ms without any other record |

Each task submits commands as handlers do. A command that fails is repeated after the next interval. The only
node of a cluster writes no idle records, because no other node waits for them. It does not fence itself,
because no other node could become leader.

Source: QuorumController's periodic tasks of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeAlias

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.store import MetadataStore
from tidelog.cluster.controller.broker_heartbeat import fence_stale_broker
from tidelog.cluster.controller.delegation_tokens import remove_expired_tokens
from tidelog.cluster.controller.elect_leaders import balance_leaders, elect_unclean
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE_MS: Final = 10
_PAUSE_AFTER_FAILURE_S: Final = 0.5
_STALL_SHARE: Final = 10
"""A delay of more than this share of a session means that received heartbeats have not been read yet."""

Step: TypeAlias = Callable[[MetadataImage], ControllerResult[bool] | Steps[ControllerResult[bool]]]
"""A command that replies whether it should be submitted again at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIntervals:
    """The intervals of the tasks, None for tasks that do not run. A single node fences no brokers."""

    fences_brokers: bool
    balance_ms: int | None
    unclean_election_ms: int | None
    idle_ms: int | None
    token_check_ms: int | None

    @classmethod
    def of(cls, config: BrokerConfig) -> TaskIntervals:
        """Return the intervals in a node's configuration."""
        balance_ms = config.leader_imbalance_check_interval_seconds * 1000
        return cls(
            fences_brokers=not config.has_own_quorum,
            balance_ms=balance_ms if config.auto_leader_rebalance_enable else None,
            unclean_election_ms=config.unclean_leader_election_interval_ms,
            idle_ms=None if config.has_own_quorum else config.metadata_max_idle_interval_ms or None,
            token_check_ms=config.delegation_token_expiry_check_interval_ms
            if config.delegation_token_secret_key
            else None,
        )


class ControllerTasks:
    """Owns the tasks: `start` when this node becomes the active controller, `stop` when it resigns."""

    def __init__(
        self,
        store: MetadataStore,
        settings: ControllerSettings,
        heartbeats: BrokerHeartbeats,
        clock: Clock,
        intervals: TaskIntervals,
    ) -> None:
        self._store = store
        self._settings = settings
        self._heartbeats = heartbeats
        self._clock = clock
        self._intervals = intervals
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks, and cancel those of an earlier start."""
        self.stop()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work, name="controller-task") for work in self._work()]

    def stop(self) -> None:
        """Cancel the tasks."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    def _work(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutine of each task that has an interval."""
        settings, intervals = self._settings, self._intervals
        if intervals.fences_brokers:
            yield self._fence()
        if intervals.balance_ms is not None:
            yield self._every(intervals.balance_ms, lambda image: balance_leaders(image, settings))
        if intervals.unclean_election_ms is not None:
            yield self._every(intervals.unclean_election_ms, lambda image: elect_unclean(image, settings))
        if intervals.token_check_ms is not None:
            yield self._every(
                intervals.token_check_ms, lambda image: remove_expired_tokens(image, self._clock.wall_ms())
            )
        if intervals.idle_ms is not None:
            yield self._mark_idle(intervals.idle_ms)

    async def _fence(self) -> None:
        while True:
            try:
                await self._fence_at_next_deadline()
            except Exception:
                # The task must continue: without it a dead broker would stay leader of its partitions.
                logger.exception("Cannot fence brokers without heartbeats; retrying after a session timeout")
                await asyncio.sleep(self._heartbeats.session_timeout_ms / 1000)

    async def _fence_at_next_deadline(self) -> None:
        """Wait until a session may have expired, and fence the brokers whose session has."""
        session_ms = self._heartbeats.session_timeout_ms
        now_ms = self._clock.monotonic_ms()
        deadline = self._heartbeats.next_deadline_ms(self._store.controller_image, now_ms)
        pause_ms = session_ms if deadline is None else min(deadline - now_ms, session_ms)
        pause_ms = max(pause_ms, _SHORTEST_PAUSE_MS)
        await asyncio.sleep(pause_ms / 1000)
        woken_ms = self._clock.monotonic_ms()
        stall_ms = woken_ms - now_ms - pause_ms
        if stall_ms > session_ms // _STALL_SHARE:
            logger.warning(
                "The controller did not run for %s ms; extending the sessions of brokers by this time",
                stall_ms,
            )
            self._heartbeats.extend_sessions(stall_ms, woken_ms)
        if not await self._run(self._fence_one):
            await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)

    def _fence_one(self, image: MetadataImage) -> Steps[ControllerResult[bool]]:
        now_ms = self._clock.monotonic_ms()
        result = yield from fence_stale_broker(image, self._settings, self._heartbeats, now_ms)
        if result.reply:
            stale = self._heartbeats.stale_broker(image, now_ms)
            logger.warning("Fencing broker %s because its session has timed out", stale)
        return result

    async def _every(self, interval_ms: int, step: Step) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self._run(step)

    async def _mark_idle(self, interval_ms: int) -> None:
        """Write a record that changes nothing after each interval in which no other record was written."""
        last_offset = self._store.controller_image.offset
        while True:
            await asyncio.sleep(interval_ms / 1000)
            if self._store.controller_image.offset == last_offset:
                await self._run(lambda image: ControllerResult((NoOpRecord(),), False))
            last_offset = self._store.controller_image.offset

    async def _run(self, step: Step) -> bool:
        """Submit the command until its reply is False; return whether that succeeded."""
        try:
            while await self._store.submit(step):
                pass
            return True
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                logger.warning("A periodic task of the controller failed: %s; retrying", error)
        except Exception:
            logger.exception("A periodic task of the controller failed; retrying")
        return False
