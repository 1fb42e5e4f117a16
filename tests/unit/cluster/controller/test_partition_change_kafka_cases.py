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


def partition_of(given: dict[str, str]) -> PartitionImage:
    return PartitionImage(
        replicas=numbers(given["replicas"]),
        isr=numbers(given["isr"]),
        leader=int(given["leader"]),
        directories=ids(given["dirs"]),
        removing_replicas=numbers(given["removing"]),
        adding_replicas=numbers(given["adding"]),
        eligible_leader_replicas=numbers(given["elr"]),
        last_known_elr=numbers(given["lk"]),
        leader_recovery_state=int(given["rs"]),
    )


def rules_of(given: dict[str, str]) -> PartitionRules:
    live = numbers(given["live"])
    return PartitionRules(
        can_lead=lambda _, broker: broker in live,
        default_directory=lambda broker: UUID(int=500 + broker),
        min_insync_replicas=int(given["min"]),
        tracks_eligible_leaders=given["elrOn"] == "1",
    )


def requested_change_of(given: dict[str, str]) -> RequestedChange:
    requested: dict[str, Any] = {"election": Election[given["election"]]}
    if "tisr" in given:
        requested["isr"] = numbers(given["tisr"])
    if "trep" in given:
        requested["sets"] = ReplicaSets(*(numbers(given[key]) for key in ("trep", "trem", "tadd")))
    if "unclean" in given:
        requested["unclean_shutdown"] = int(given["unclean"])
    if "trs" in given:
        requested["leader_recovery_state"] = int(given["trs"])
    if "dir" in given:
        broker, directory = given["dir"].split(":")
        requested["directories"] = {int(broker): UUID(int=int(directory))}
    return RequestedChange(**requested)


def expected_fields(text: str) -> dict[str, Any] | None:
    if text == "none":
        return None
    reported = fields(text)
    lists = {
        "isr": "isr",
        "elr": "eligible_leader_replicas",
        "lk": "last_known_elr",
        "replicas": "replicas",
        "removing": "removing_replicas",
        "adding": "adding_replicas",
    }
    expected: dict[str, Any] = {
        name: None if reported[key] == "null" else numbers(reported[key]) for key, name in lists.items()
    }
    expected["directories"] = None if reported["dirs"] == "null" else ids(reported["dirs"])
    return expected | {"leader": int(reported["leader"]), "leader_recovery_state": int(reported["rs"])}


@pytest.mark.parametrize("start", range(0, len(LINES), 50))
def test_partition_changes_equal_kafkas(start: int) -> None:
    for line in LINES[start : start + 50]:
        inputs, _, answer = line.partition(" -> ")
        given = fields(inputs)
        record = change_partition(
            UUID(int=9), 0, partition_of(given), rules_of(given), requested_change_of(given)
        )
        expected = expected_fields(answer)
        if expected is None:
            assert record is None, line
        else:
            assert {name: getattr(record, name) for name in expected} == expected, line
