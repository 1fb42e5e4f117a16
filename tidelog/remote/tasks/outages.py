"""The outages of remote storage as a node observes them, by kind of work."""

from __future__ import annotations

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.outage import Outage
from tidelog.base.randomness import Randomness
from tidelog.remote.tasks.settings import RemoteLogManagerSettings

BACKOFF_INTERVALS_MAX = 10
"""The maximum delay after failures, in intervals of the tasks: five minutes with the default interval."""


@dataclass(frozen=True, slots=True)
class StoreOutages:
    """A store may refuse writes and still serve reads, for example if credentials have no other rights."""

    copies: Outage
    reads: Outage
    deletions: Outage

    @classmethod
    def create(cls, settings: RemoteLogManagerSettings, clock: Clock, randomness: Randomness) -> StoreOutages:
        """Return the outages of a node, none of which has begun."""

        def outage(work: str) -> Outage:
            return Outage(work, clock, randomness, failure_backoff(settings))

        return cls(
            outage("Copying to remote storage"),
            outage("Reading from remote storage"),
            outage("Deleting from remote storage"),
        )


def failure_backoff(settings: RemoteLogManagerSettings) -> ExponentialBackoff:
    """Return the backoff after failures.

    It grows beyond the interval of the tasks, unless a smaller maximum is configured.
    """
    interval_ms = settings.remote_log_manager_task_interval_ms
    configured_ms = settings.remote_log_manager_task_retry_backoff_max_ms
    return ExponentialBackoff(
        settings.remote_log_manager_task_retry_backoff_ms,
        configured_ms if configured_ms < interval_ms else BACKOFF_INTERVALS_MAX * interval_ms,
        settings.remote_log_manager_task_retry_jitter,
    )
