"""The configuration of one replica of the metadata log, which all its parts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.cluster.quorum.rules import QuorumRules
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, VoterSet
from tidelog.protocol.ids import BrokerId


def _epoch_start() -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """The identity of a replica, the addresses of the quorum, its settings, and its time and random sources.

    `static_voters` apply until the log contains a voter set. They are empty if the voters come from the
    log or the replica finds the quorum through `bootstrap_servers`. `endpoints` are the controller
    listeners of this node; if empty, the endpoints in the voter set apply. `random_below(n)` returns a random
    number from 0 to n - 1. `wall_ms` returns ms since the epoch for timestamps of records. Simulations
    replace individual `rules`.
    """

    key: ReplicaKey
    cluster_id: str
    settings: QuorumSettings
    random_below: Callable[[int], int]
    wall_ms: Callable[[], int] = _epoch_start
    static_voters: VoterSet = field(default_factory=VoterSet)
    endpoints: tuple[Endpoint, ...] = ()
    bootstrap_servers: tuple[Endpoint, ...] = ()
    rules: QuorumRules = field(default_factory=QuorumRules)

    @property
    def id(self) -> BrokerId:
        """The id of this node."""
        return self.key.id

    def accepts_cluster_id(self, cluster_id: str | None) -> bool:
        """Return whether a request with `cluster_id` is for this cluster; None is accepted."""
        return cluster_id is None or cluster_id == self.cluster_id

    def is_same_replica(self, known: ReplicaKey, other: ReplicaKey) -> bool:
        """Return whether `other` is the replica `known`; the directory id of `known` may be unknown."""
        return known.id == other.id and self.rules.is_same_directory(known.directory_id, other.directory_id)
