"""The voter set at each offset of the log."""

from __future__ import annotations

from tests.sim.quorum.memory_log import MemoryLog
from tests.unit.cluster.quorum.logs import bootstrap_log, snapshot_of
from tests.unit.cluster.quorum.replica_fixture import control_of, dynamic, record_of, static
from tidelog.cluster.quorum.control import (
    kraft_version_record,
    voters_record,
)
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.voter_history import VoterHistory
from tidelog.cluster.quorum.voter_set import VoterSet


def load_history(log: MemoryLog) -> VoterHistory:
    """Return the history of a log with static voters 1 and 2."""
    history = VoterHistory(static(1, 2))
    history.load(log)
    return history


def test_static_voters_apply_until_the_log_has_a_voter_set() -> None:
    log = MemoryLog()
    log.append(record_of(1, 0), 1)
    history = load_history(log)
    assert (history.last, history.last_offset, history.kraft_version) == (static(1, 2), None, 0)
    log.append(control_of(1, 1, kraft_version_record(1), voters_record(dynamic(1, 2))), 1)
    history = load_history(log)
    assert (history.last, history.last_offset, history.kraft_version) == (dynamic(1, 2), 2, 1)
    assert history.before_last == static(1, 2)


def test_a_truncated_voter_set_is_forgotten() -> None:
    log = MemoryLog()
    log.append(control_of(1, 0, kraft_version_record(1), voters_record(dynamic(1))), 1)
    history = load_history(log)
    assert history.read(control_of(1, 2, voters_record(dynamic(1, 2))))
    assert history.last == dynamic(1, 2)
    assert history.truncate(2)
    assert history.last == dynamic(1)
    assert history.truncate(0)
    assert (history.last, history.kraft_version) == (static(1, 2), 0)
    assert not history.read(record_of(1, 0))


def test_a_snapshot_has_the_voter_set_of_its_end_offset() -> None:
    history = load_history(bootstrap_log(dynamic(3)))
    assert (history.last, history.last_offset, history.kraft_version) == (dynamic(3), -1, 1)
    assert history.at(0) == (1, dynamic(3))
    assert load_history(bootstrap_log(VoterSet())).last_offset == -1
    log = MemoryLog()
    log.snapshots[SnapshotId(0, 0)] = snapshot_of(None)
    assert load_history(log).last == static(1, 2)


def test_a_snapshot_at_any_offset_has_the_voter_set_of_that_offset() -> None:
    log = MemoryLog()
    log.append(control_of(1, 0, kraft_version_record(1), voters_record(dynamic(1))), 1)
    log.append(record_of(1, 2), 1)
    log.append(control_of(1, 3, voters_record(dynamic(1, 2))), 1)
    history = load_history(log)
    assert [history.at(offset) for offset in (0, 1, 2, 3, 4)] == [
        (0, None),
        (1, None),
        (1, dynamic(1)),
        (1, dynamic(1)),
        (1, dynamic(1, 2)),
    ]
    history.trim(4)
    assert history.at(4) == (1, dynamic(1, 2))
    assert history.last_offset == 3
