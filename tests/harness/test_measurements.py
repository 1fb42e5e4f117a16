"""The summary of response times in a phase, and the evaluation of the figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.measurements import (
    INTERVAL_NS,
    NANOSECONDS_PER_MS,
    Kind,
    Phase,
    Sample,
    correct_for_coordinated_omission,
    pending_requests,
    percentile,
    phase_of,
)
from tests.harness.hostile.report_rows import AttackMeasurements, failures_of, misses_of

ATTACK = Attack(name="x", item="review", actions="nothing", run=lambda context: None, memory_mib=10)
QUIET = Phase(
    requests=100,
    errors=0,
    blocked_ms=1.0,
    gap_ms=1.0,
    p50_ms=0.3,
    p99_ms=1.0,
    p99_gross_ms=1.0,
    connect_max_ms=2.0,
)
HARMLESS = AttackMeasurements(
    before=QUIET,
    during=QUIET,
    after=QUIET,
    blocked_ms=1.0,
    stall_ms=None,
    memory_before=50 * MEBIBYTE,
    memory_peak=60 * MEBIBYTE,
    memory_after=55 * MEBIBYTE,
    descriptors_before=60,
    descriptors_peak=90,
    descriptors_after=60,
    released_s=0.5,
    log_lines=3,
    seconds=1.0,
)


def sample(kind: Kind, sent_ms: float, elapsed_ms: float, without_cpu_ms: float = 0.0) -> Sample:
    nanoseconds = [int(value * NANOSECONDS_PER_MS) for value in (sent_ms, elapsed_ms, without_cpu_ms)]
    return Sample(kind, False, *nanoseconds)


def test_time_without_a_cpu_is_not_attributed_to_the_broker() -> None:
    phase = phase_of([sample(Kind.PROBE, 0, 50, without_cpu_ms=40), sample(Kind.PROBE, 60, 5)])
    assert phase.blocked_ms == pytest.approx(10)
    assert phase.gap_ms == pytest.approx(50)


def test_one_long_response_counts_as_all_requests_that_would_have_waited() -> None:
    interval = INTERVAL_NS[Kind.WORK]
    assert correct_for_coordinated_omission([10 * interval], interval) == [
        count * interval for count in range(10, 0, -1)
    ]
    phase = phase_of([sample(Kind.WORK, number * 5, 1) for number in range(100)])
    assert phase.p99_ms == pytest.approx(1)
    stalled = phase_of(
        [*(sample(Kind.WORK, number * 5, 1) for number in range(100)), sample(Kind.WORK, 500, 500)]
    )
    assert stalled.p99_ms > 400


def test_requests_without_a_response_count_up_to_now() -> None:
    latest = {kind: sample(kind, 0, 1) for kind in Kind}
    assert not pending_requests(latest, 50 * NANOSECONDS_PER_MS)
    samples = pending_requests(latest, 5000 * NANOSECONDS_PER_MS)
    assert {one.kind for one in samples} == set(Kind)
    assert all(one.elapsed_ns > 4000 * NANOSECONDS_PER_MS for one in samples)


def test_the_percentile_of_no_values_is_zero() -> None:
    assert percentile([], 0.99) == 0
    assert percentile([3, 1, 2], 0.5) == 2


def test_a_harmless_attack_has_no_failures_and_no_misses() -> None:
    assert not failures_of(ATTACK, HARMLESS)
    assert not misses_of(HARMLESS)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (replace(HARMLESS, memory_peak=61 * MEBIBYTE), "memory grew by 11 MiB"),
        (replace(HARMLESS, released_s=None, descriptors_after=99), "not released"),
        (replace(HARMLESS, log_lines=10_000), "lines logged"),
        (replace(HARMLESS, after=replace(QUIET, errors=2)), "2 errors after the attack"),
    ],
)
def test_a_failure_independent_of_the_machine_is_a_failure(changed: AttackMeasurements, text: str) -> None:
    (failure,) = failures_of(ATTACK, changed)
    assert text in failure


def test_exceeded_time_goals_are_only_misses() -> None:
    slow = replace(HARMLESS, blocked_ms=25.0, during=replace(QUIET, p99_ms=6.0))
    assert len(misses_of(slow)) == 2
    assert not failures_of(ATTACK, slow)
    within_noise = replace(HARMLESS, during=replace(QUIET, p99_ms=4.9))
    assert not misses_of(within_noise)
