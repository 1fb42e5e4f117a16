"""Changes of partitions equal those of Apache Kafka 4.3.1; see the README of the golden file."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.paths import GOLDEN_FILES
from tidelog.cluster.controller.partition_change import (
    Election,
    PartitionRules,
    RequestedChange,
    change_partition,
)
from tidelog.cluster.controller.reassignment_sets import ReplicaSets
from tidelog.cluster.image import PartitionImage

GOLDEN = GOLDEN_FILES / "cluster" / "partition-changes-4.3.1.txt"
LINES = GOLDEN.read_text().splitlines()


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.strip("[]").split(",") if each)


def ids(text: str) -> tuple[UUID, ...]:
    return tuple(UUID(int=each) for each in numbers(text))


def fields(text: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in text.split(" "))


def partition_of(inputs: dict[str, str]) -> PartitionImage:
    return PartitionImage(
        replicas=numbers(inputs["replicas"]),
        isr=numbers(inputs["isr"]),
        leader=int(inputs["leader"]),
        directories=ids(inputs["dirs"]),
        removing_replicas=numbers(inputs["removing"]),
        adding_replicas=numbers(inputs["adding"]),
        eligible_leader_replicas=numbers(inputs["elr"]),
        last_known_elr=numbers(inputs["lk"]),
        leader_recovery_state=int(inputs["rs"]),
    )


def rules_of(inputs: dict[str, str]) -> PartitionRules:
    live = numbers(inputs["live"])
    return PartitionRules(
        can_lead=lambda _, broker: broker in live,
        default_directory=lambda broker: UUID(int=500 + broker),
        min_insync_replicas=int(inputs["min"]),
        tracks_eligible_leaders=inputs["elrOn"] == "1",
    )


def requested_change_of(inputs: dict[str, str]) -> RequestedChange:
    requested: dict[str, Any] = {"election": Election[inputs["election"]]}
    if "tisr" in inputs:
        requested["isr"] = numbers(inputs["tisr"])
    if "trep" in inputs:
        requested["sets"] = ReplicaSets(*(numbers(inputs[key]) for key in ("trep", "trem", "tadd")))
    if "unclean" in inputs:
        requested["unclean_shutdown"] = int(inputs["unclean"])
    if "trs" in inputs:
        requested["leader_recovery_state"] = int(inputs["trs"])
    if "dir" in inputs:
        broker, directory = inputs["dir"].split(":")
        requested["directories"] = {int(broker): UUID(int=int(directory))}
    return RequestedChange(**requested)


def expected_fields(text: str) -> dict[str, Any] | None:
    if text == "none":
        return None
    outcome_fields = fields(text)
    lists = {
        "isr": "isr",
        "elr": "eligible_leader_replicas",
        "lk": "last_known_elr",
        "replicas": "replicas",
        "removing": "removing_replicas",
        "adding": "adding_replicas",
    }
    expected: dict[str, Any] = {
        name: None if outcome_fields[key] == "null" else numbers(outcome_fields[key])
        for key, name in lists.items()
    }
    expected["directories"] = None if outcome_fields["dirs"] == "null" else ids(outcome_fields["dirs"])
    return expected | {
        "leader": int(outcome_fields["leader"]),
        "leader_recovery_state": int(outcome_fields["rs"]),
    }


@pytest.mark.parametrize("start", range(0, len(LINES), 50))
def test_partition_changes_equal_kafkas(start: int) -> None:
    for line in LINES[start : start + 50]:
        input_text, _, outcome = line.partition(" -> ")
        inputs = fields(input_text)
        record = change_partition(
            UUID(int=9), 0, partition_of(inputs), rules_of(inputs), requested_change_of(inputs)
        )
        expected = expected_fields(outcome)
        if expected is None:
            assert record is None, line
        else:
            assert {name: getattr(record, name) for name in expected} == expected, line
