"""The short form of `make hostile`: every attack that can share a broker, small, one after the other.

The assertions hold on any machine: the broker runs, the well-behaved client is served, memory and logs
stay within the attack's bounds, and everything is released. Times are only printed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attacks import ATTACKS
from tests.harness.hostile.run import SHORT, Runner, running_target

SHARING = [attack for attack in ATTACKS if attack.is_short and not attack.needs_own_target]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with running_target(SHORT) as running:
        yield running


@pytest.mark.parametrize("attack", SHARING, ids=lambda attack: attack.name)
def test_a_broker_survives_each_hostile_client(attack: Attack, runner: Runner) -> None:
    row = runner.run(attack)
    assert row.measurements is not None, row.failures
    print(f"{attack.name}: blocked {row.measurements.blocked_ms:.1f} ms, {'; '.join(row.notes)}")
    assert not row.failures


def test_attack_names_are_unique() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)


def test_every_item_of_the_issue_has_an_attack() -> None:
    items = {attack.item for attack in ATTACKS}
    assert {str(number) for number in (11, *range(13, 23))} | {"corpus", "review", "issue 13"} == items
