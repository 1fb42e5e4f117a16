"""A follower's log without bytes, for its state machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.cluster.replication.follower_fetcher import FollowerFetcher
from tidelog.cluster.replication.follower_state import Action, Append, RestartAt, RestartFromRemote, Truncate
from tidelog.storage.leader_epoch import LeaderEpochCache


@dataclass
class FollowedLog:
    """A log with offsets and epochs only; an append of n bytes adds n records."""

    log_end_offset: int = 0
    high_watermark: int = 0
    log_start_offset: int = 0
    leader_epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    local_log_start_offset: int = 0
    remote_log_enabled: bool = False
    producer_snapshot: bytes | None = None

    @classmethod
    def of(cls, *epochs: tuple[int, int], end: int, high_watermark: int = 0) -> FollowedLog:
        """Return a log with these (epoch, start offset) pairs."""
        log = cls(end, high_watermark)
        for epoch, start in epochs:
            log.leader_epochs.assign(epoch, start)
        return log

    def append(self, count: int, epoch: int) -> None:
        """Add records of an epoch."""
        self.leader_epochs.assign(epoch, self.log_end_offset)
        self.log_end_offset += count

    def truncate(self, offset: int) -> None:
        """End the log at `offset`."""
        self.log_end_offset = min(self.log_end_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.leader_epochs.truncate_from_end(offset)

    def restart(self, offset: int) -> None:
        """Empty the log and start it at `offset`."""
        self.log_start_offset = self.local_log_start_offset = offset
        self.log_end_offset = self.high_watermark = offset
        self.leader_epochs.clear()

    def restart_from_remote(self, action: RestartFromRemote) -> None:
        """Empty the log and start it after the remote records."""
        self.restart(action.offset)
        self.log_start_offset = action.log_start_offset
        self.leader_epochs = LeaderEpochCache.of(action.leader_epochs)
        self.producer_snapshot = action.producer_snapshot


def perform(fetcher: FollowerFetcher, actions: list[Action], epoch: int = 0) -> None:
    """Perform the fetcher's actions on FollowedLogs; appended records have `epoch`."""
    for action in actions:
        if not isinstance(action, Append | Truncate | RestartAt | RestartFromRemote):
            continue
        log = action.partition.log
        assert isinstance(log, FollowedLog)
        if isinstance(action, Append):
            assert action.offset == log.log_end_offset
            if action.records:
                log.append(len(action.records), epoch)
            log.high_watermark = max(log.high_watermark, min(action.high_watermark, log.log_end_offset))
        elif isinstance(action, Truncate):
            log.truncate(action.offset)
        elif isinstance(action, RestartFromRemote):
            log.restart_from_remote(action)
        else:
            log.restart(action.offset)
        fetcher.on_action_performed(action)
