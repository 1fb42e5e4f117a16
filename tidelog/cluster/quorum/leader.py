"""The leader's own actions: it appends records, checks its quorum and announces its epoch.

Source: KIP-595, KAFKA-15489 (check quorum).
"""

from __future__ import annotations

from tidelog.cluster.quorum.effects import AppendRejected, RecordsAppended
from tidelog.cluster.quorum.epoch_requests import EpochRequests
from tidelog.cluster.quorum.events import Append
from tidelog.cluster.quorum.fetch_service import FetchService
from tidelog.cluster.quorum.leader_log import LeaderLog
from tidelog.cluster.quorum.leader_state import LeaderState
from tidelog.cluster.quorum.replica import Replica
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_changes import VoterChanges
from tidelog.protocol.batch import BATCH_OVERHEAD

RECORD_OVERHEAD = 24
"""An upper bound of the bytes of a record without its value; the actual overhead is at most about 20."""


class Leader:
    """Appends records while this replica is the leader, and resigns without a majority."""

    def __init__(
        self,
        replica: Replica,
        leader_log: LeaderLog,
        fetch_service: FetchService,
        voter_changes: VoterChanges,
        epoch_requests: EpochRequests,
    ) -> None:
        self._config = replica.config
        self._quorum_state = replica.quorum_state
        self._outbox = replica.outbox
        self._leader_log = leader_log
        self._fetch_service = fetch_service
        self._voter_changes = voter_changes
        self._epoch_requests = epoch_requests

    def append(self, event: Append, now_ms: int) -> None:
        """Append records to the log, all or none."""
        reason = self._append_error(event)
        if reason is not None:
            self._outbox.add(AppendRejected(event.context, reason))
            return
        base_offset, last_offset = self._leader_log.append_data(event.records)
        self._outbox.add(RecordsAppended(event.context, base_offset, last_offset, self._quorum_state.epoch))
        # Followers write the records to their disks while this replica writes them to its own.
        self._fetch_service.complete_parked(now_ms)
        self._leader_log.flush()

    def _append_error(self, event: Append) -> str | None:
        """Return why records cannot be appended; None if they can."""
        state = self._quorum_state
        if state.state is not State.LEADER or event.epoch != state.epoch:
            return f"not the leader of epoch {event.epoch}: {state.state.value} in epoch {state.epoch}"
        if not event.records:
            return "the append contains no records"
        size = BATCH_OVERHEAD + sum(len(record) + RECORD_OVERHEAD for record in event.records)
        bound = self._config.settings.append_max_bytes
        return f"a batch of {size} bytes exceeds the maximum of {bound}" if size > bound else None

    def on_persist_completed(self, ticket: int, now_ms: int) -> None:
        """Advance the high watermark after a flush: the leader's durable records count for it."""
        leader = self._quorum_state.role
        if isinstance(leader, LeaderState) and leader.on_flush_completed(ticket):
            self._fetch_service.advance_high_watermark(leader, now_ms)

    def poll(self, leader: LeaderState, now_ms: int) -> int:
        """Resign without a majority; otherwise perform scheduled actions. Return when to poll again."""
        voters_needed = leader.positions.fetching_voters_needed
        if voters_needed == 0:
            # Restarted continuously, so that an added voter has the whole timeout for its first fetch.
            leader.check_quorum.restart(now_ms)
        check_quorum_at_ms = self._config.rules.check_quorum_deadline_ms(
            leader.check_quorum.deadline_ms, voters_needed
        )
        if check_quorum_at_ms is not None and now_ms >= check_quorum_at_ms:
            self._quorum_state.resign(now_ms)
            return now_ms
        if now_ms >= leader.begin_epoch_at_ms:
            self._epoch_requests.send_begin(leader, now_ms)
        poll_at_ms = [
            leader.begin_epoch_at_ms,
            self._fetch_service.complete_parked(now_ms),
            self._voter_changes.poll(leader, now_ms),
            check_quorum_at_ms,
        ]
        return min(each for each in poll_at_ms if each is not None)
