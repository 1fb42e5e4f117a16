"""The voter set that one replica knows, and the replica's own entry in it."""

from __future__ import annotations

from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.log import ReadableRaftLog
from tidelog.cluster.quorum.voter_history import VoterHistory
from tidelog.cluster.quorum.voter_set import (
    KRAFT_VERSION_DYNAMIC,
    KRAFT_VERSION_STATIC,
    Endpoint,
    Voter,
    VoterSet,
)
from tidelog.protocol.ids import BrokerId


class Membership:
    """Derives the voters and this replica's membership from the voter history; it stores no state."""

    def __init__(self, config: ReplicaConfig, history: VoterHistory, log: ReadableRaftLog) -> None:
        self._config = config
        self._history = history
        self._log = log

    @property
    def voters(self) -> VoterSet:
        """The last voter set in the log, committed or not, or the static voters."""
        return self._history.last

    @property
    def kraft_version(self) -> int:
        """The current kraft.version."""
        return self._history.kraft_version

    @property
    def is_voter(self) -> bool:
        """Whether this replica, with its directory, is a voter."""
        voter = self.voters.by_id.get(self._config.id)
        return voter is not None and self._config.is_same_replica(voter.key, self._config.key)

    @property
    def is_electable(self) -> bool:
        """Whether this replica may become a candidate.

        A voter may, and so may a replica that was a voter until an uncommitted change removed it. Without its
        log, possibly no replica could commit that change (Ongaro's dissertation, 4.2.2). Its own vote does
        not count.
        """
        if self.is_voter:
            return True
        offset = self._history.last_offset
        if offset is None or offset < self._log.high_watermark:
            return False
        voter = self._history.before_last.by_id.get(self._config.id)
        return voter is not None and self._config.is_same_replica(voter.key, self._config.key)

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica alone is a majority."""
        return len(self.voters) == 1 and self.is_voter

    @property
    def own_endpoints(self) -> tuple[Endpoint, ...]:
        """The controller listeners of this node."""
        return self._config.endpoints or self.endpoints_of(self._config.id)

    @property
    def own_voter(self) -> Voter:
        """The entry of this replica in a voter set that contains it."""
        return Voter(
            key=self._config.key,
            endpoints=self.own_endpoints,
            kraft_version_min=KRAFT_VERSION_STATIC,
            kraft_version_max=KRAFT_VERSION_DYNAMIC,
        )

    def endpoints_of(self, node_id: BrokerId) -> tuple[Endpoint, ...]:
        """Return the endpoints of a voter or of one that the last change removed; empty for other nodes."""
        voter = self.voters.by_id.get(node_id) or self._history.before_last.by_id.get(node_id)
        return () if voter is None else voter.endpoints
