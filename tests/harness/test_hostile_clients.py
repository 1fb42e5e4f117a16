"""The short form of `make hostile`: every attack that can share a broker, small, one after the other.

What is asserted holds on any machine: the broker lives, the well-behaved client is served, memory and logs
stay within the attack's bounds, and all is released. Times are only printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attacks import ATTACKS
from tests.harness.hostile.run import SHORT, Runner, started

SHARING = [attack for attack in ATTACKS if attack.is_short and not attack.needs_own_target]
OPEN_DEFECTS: Mapping[str, str] = {
    "parked-fetch-repeats-a-partition": "item 13: the purgatory checks an operation once per repetition",
    "parked-fetch-of-a-closed-connection": "item 13: the purgatory checks an operation once per repetition",
    "closed-behind-a-full-buffer": "item 14: a closed connection with a parked request is not noticed",
    "large-frames-of-closed-connections": "item 14: a closed connection with a parked request is not noticed",
    "large-frames-of-parked-fetches": "item 14: a closed connection with a parked request is not noticed",
    "metrics-idle-connections": "item 21: idle connections close the metrics endpoint",
    "unread-large-fetches": "item 22: an unread large fetch holds three descriptors",
    "bad-frames-of-many-connections": "item 22: warnings per bad connection are not limited",
    "impossible-frame-sizes": "item 22: warnings per bad connection are not limited",
    "garbage-frames": "item 22: warnings per bad connection are not limited",
    "batch-lies": "item 22: warnings per bad batch are not limited",
    "tagged-fields": "item 22: warnings per bad connection are not limited",
    "apis-of-other-listeners": "item 22: warnings per bad connection are not limited",
    "wide-describe-producers": "a partition that is named again and again is described as often",
}


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with started(SHORT) as running:
        yield running


@pytest.mark.parametrize("attack", SHARING, ids=lambda attack: attack.name)
def test_a_hostile_client_is_survived_and_leaves_nothing_behind(attack: Attack, runner: Runner) -> None:
    if attack.name in OPEN_DEFECTS:
        pytest.skip(OPEN_DEFECTS[attack.name])
    row = runner.run(attack)
    assert row.measured is not None, row.failures
    print(f"{attack.name}: blocked {row.measured.blocked_ms:.1f} ms, {'; '.join(row.notes)}")
    assert not row.failures


def test_every_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)


def test_every_item_of_the_issue_about_hostile_clients_has_an_attack() -> None:
    items = {attack.item for attack in ATTACKS}
    assert {str(number) for number in (11, *range(13, 23))} | {"corpus", "review"} == items
