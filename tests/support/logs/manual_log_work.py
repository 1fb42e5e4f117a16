"""A queue of log work that a test completes step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidelog.broker.logs.log_work_queue import Outcome, Work
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.log.partition_log import PartitionLog


class ManualLogWork:
    """A LogWorkQueue that creates and retires logs in order when the test calls `finish`."""

    def __init__(self, on_done: Callable[[Sequence[Outcome]], None]) -> None:
        self.planned: list[Work] = []
        self.callbacks: list[Callable[[], None]] = []
        self.plans_at_once = True
        """Whether `submit_plans` plans the logs; otherwise `plan_next` or `finish_all` does."""
        self._plans: list[Iterator[Work]] = []
        self._on_done = on_done

    def submit(self, planned: Sequence[Work]) -> None:
        self.planned += planned

    def submit_plans(self, plans: Iterator[Work]) -> None:
        if self.plans_at_once:
            self.planned += plans
        else:
            self._plans.append(plans)

    def plan_next(self) -> None:
        """Plan one more log."""
        self.planned.append(next(self._plans[0]))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def next_turn(self) -> None:
        """Run the callbacks that are scheduled now."""
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    @property
    def creations(self) -> list[LogCreation]:
        """Return the logs that are to be created."""
        return [each for each in self.planned if isinstance(each, LogCreation)]

    def finish(self, outcome: Exception | None = None) -> None:
        """Complete the planned work, or fail it with `outcome`."""
        planned, self.planned = self.planned, []
        self._on_done([(work, outcome or _outcome_of(work)) for work in planned])

    def finish_all(self) -> None:
        """Complete the planned work, and the work that results from it."""
        while self.planned or self._plans:
            while self._plans:
                self.planned += self._plans.pop(0)
            self.finish()

    def finish_with_callbacks(self) -> None:
        """Complete all work, also that of later turns of the event loop."""
        while self.planned or self._plans or self.callbacks:
            self.finish_all()
            self.next_turn()


def _outcome_of(work: Work) -> PartitionLog | Exception | None:
    try:
        return work.run()
    except Exception as error:
        return error
