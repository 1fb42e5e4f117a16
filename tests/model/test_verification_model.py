"""Every order of markers, verifications, responses and appends of two consecutive transactions (KIP-890).

Safety: no transaction hangs, and each record is ended by the marker of its own transaction, with the result
that the client received. Liveness: a correct client never gets an error that it cannot retry.
`TIDELOG_FAULTS_AT_ONCE=4` explores all faults together, which takes minutes.
"""

from __future__ import annotations

import os
from itertools import combinations

import pytest

from tests.support.transactions.verification_model import (
    REPEATED_VERIFICATION,
    Fault,
    Scenario,
    Violation,
    explore,
)
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.producers.verification import Verification

FAULTS_AT_ONCE_MAX = int(os.environ.get("TIDELOG_FAULTS_AT_ONCE", "1"))
VERSIONS = [(2, 2), (0, 0), (0, 2), (2, 0)]
FAULTS = [faults for count in range(FAULTS_AT_ONCE_MAX + 1) for faults in combinations(Fault, count)]


def scenario(versions: tuple[int, int], faults: tuple[Fault, ...], **options: object) -> Scenario:
    """Return a scenario; a repeated marker of version 0 may end a later transaction."""
    is_certain = versions[0] >= 2 or Fault.A_MARKER_IS_SENT_AGAIN not in faults
    return Scenario(versions, faults, ends_are_certain=is_certain, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("faults", FAULTS, ids=lambda faults: "+".join(f.name for f in faults))
@pytest.mark.parametrize("versions", VERSIONS, ids=str)
def test_in_every_order_no_transaction_hangs_and_a_valid_client_continues(
    versions: tuple[int, int], faults: tuple[Fault, ...]
) -> None:
    explore(scenario(versions, faults))


@pytest.mark.parametrize("versions", VERSIONS, ids=str)
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_in_every_order_no_offset_commit_hangs(versions: tuple[int, int], fault: Fault) -> None:
    commit_scenario = scenario(versions, (fault,), origin=AppendOrigin.COORDINATOR)
    # Without sequences a late commit of version 0 cannot be distinguished from one of the next transaction.
    is_certain = commit_scenario.ends_are_certain and versions != (0, 0)
    explore(commit_scenario._replace(ends_are_certain=is_certain))


def test_a_late_duplicate_with_a_repeated_marker_leaves_no_hanging_transaction() -> None:
    faults = (Fault.THE_CLIENT_SENDS_AGAIN, Fault.A_MARKER_IS_SENT_AGAIN)
    assert REPEATED_VERIFICATION not in explore(scenario((2, 2), faults))


def test_in_every_order_the_previous_transactions_marker_refuses_no_batch() -> None:
    for fault in (Fault.A_MARKER_IS_SENT_AGAIN, Fault.THE_COORDINATOR_FAILS_OVER):
        assert REPEATED_VERIFICATION not in explore(scenario((2, 2), (fault,)))


def test_a_marker_without_transaction_version_causes_retries_and_no_failure() -> None:
    # A coordinator that sends WriteTxnMarkers 1.
    assert REPEATED_VERIFICATION in explore(Scenario((2, 2), markers_carry_version=False))


@pytest.mark.parametrize("versions", [(0, 0), (2, 0)], ids=str)
def test_without_verification_ended_by_markers_transactions_hang(
    versions: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Verification, "is_ended_by_marker", lambda *_: False)
    with pytest.raises(Violation, match="hangs"):
        for faults in FAULTS:
            explore(scenario(versions, faults))
