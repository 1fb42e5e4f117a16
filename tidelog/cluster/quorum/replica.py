"""One replica of the metadata log."""

from __future__ import annotations

from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.connections import Connections
from tidelog.cluster.quorum.epoch_and_vote import EpochAndVote
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.log import RaftLog, ReadableRaftLog
from tidelog.cluster.quorum.log_writer import LogWriter
from tidelog.cluster.quorum.membership import Membership
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.quorum_state import QuorumState
from tidelog.cluster.quorum.responses import top_level_error
from tidelog.cluster.quorum.voter_history import VoterHistory
from tidelog.protocol.errors import ErrorCode


class Replica:
    """The parts of one replica, which the handlers of the protocol share. Each part owns its state.

    | part | owns |
    |---|---|
    | `epoch_and_vote` | epoch, leader and vote, which survive a restart |
    | `quorum_state` | the state, and the role with its data |
    | `log_writer` | the log, and the voter sets in it; `log`, `history` and `membership` read them |
    | `connections` | the requests in flight to other nodes |
    | `outbox` | the effects of the current step |
    """

    def __init__(self, config: ReplicaConfig, log: RaftLog, record: QuorumRecord | None, now_ms: int) -> None:
        """Start from the log and `record`, the content of `quorum-state`; None if there is none."""
        settings = config.settings
        self.config = config
        self.log: ReadableRaftLog = log
        self.outbox = Outbox()
        self.history = VoterHistory(config.static_voters)
        self.log_writer = LogWriter(log, self.history, self.outbox, config.rules)
        self.membership = Membership(config, self.history, log)
        self.connections = Connections(
            self.outbox,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self.epoch_and_vote = EpochAndVote(record, log.last_epoch, self.outbox, config.rules)
        self.quorum_state = QuorumState(
            config, self.epoch_and_vote, self.membership, self.outbox, self.connections, now_ms
        )

    def reject(self, request: RequestReceived, error: ErrorCode) -> None:
        """Respond with a top-level error to a request for another cluster or another partition."""
        self.outbox.respond(request, top_level_error(request.message, error))
