"""The place of a replica in the voter set."""

from __future__ import annotations

from tests.sim.quorum.memory_log import MemoryLog
from tests.support.configs import quorum_settings
from tests.unit.cluster.quorum.replica_fixture import CLUSTER_ID, control_of, directory, dynamic, static
from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.control import kraft_version_record, voters_record
from tidelog.cluster.quorum.membership import Membership
from tidelog.cluster.quorum.voter_history import VoterHistory
from tidelog.cluster.quorum.voter_set import ReplicaKey, VoterSet


def membership(key: ReplicaKey, voters: VoterSet, log: MemoryLog | None = None) -> Membership:
    """Return the membership of the replica `key`; `log` may contain other voters."""
    config = ReplicaConfig(
        key=key, cluster_id=CLUSTER_ID, settings=quorum_settings(), random_below=lambda bound: 0
    )
    log = log or MemoryLog()
    history = VoterHistory(voters)
    history.load(log)
    return Membership(config, history, log)


def test_a_voter_matches_by_id_and_by_directory_id_if_known() -> None:
    assert membership(ReplicaKey(1, directory(1)), dynamic(1, 2)).is_voter
    assert not membership(ReplicaKey(1, directory(1, 2)), dynamic(1, 2)).is_voter
    assert not membership(ReplicaKey(1), dynamic(1, 2)).is_voter
    assert membership(ReplicaKey(1, directory(1)), static(1, 2)).is_voter
    assert not membership(ReplicaKey(3), static(1, 2)).is_voter


def test_a_removed_voter_is_electable_until_the_removal_is_committed() -> None:
    log = MemoryLog()
    log.append(control_of(1, 0, kraft_version_record(1), voters_record(dynamic(2, 3))), 1)
    removed = membership(ReplicaKey(1, directory(1)), dynamic(1, 2, 3), log)
    assert (removed.is_voter, removed.is_electable) == (False, True)
    log.advance_high_watermark(2)
    assert not removed.is_electable


def test_the_only_voter_is_a_majority() -> None:
    assert membership(ReplicaKey(1, directory(1)), dynamic(1)).is_only_voter
    assert not membership(ReplicaKey(2, directory(2)), dynamic(1)).is_only_voter
