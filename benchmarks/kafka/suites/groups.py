"""Rebalances and commits of groups with few and many members, by each protocol whose members commit."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.kafka.brokers import Brokers, Setup
from benchmarks.kafka.case import Better, Case, Effort, Findings, Metric, Suite
from benchmarks.kafka.suites.coordinator_load import load_case
from benchmarks.loads.groups import COMMITS_PER_S
from benchmarks.processes import run_load

TOPIC: Final = "grouped"
MEMBERS: Final = (10, 100, 1_000)
PROTOCOLS: Final = ("classic", "consumer", "streams")

SETTINGS: Final = {
    # So that waiting for the next assignment is no part of the figures.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}

METRICS: Final = (
    Metric(key="rebalance_ms", name="one more member joins", unit="ms", better=Better.LOWER),
    Metric(key="rebalance_cpu_ms", name="broker CPU for it", unit="ms", better=Better.LOWER),
    Metric(key="commits_per_s", name="commits", unit="1/s", better=Better.HIGHER),
    Metric(key="cpu_us_per_commit", name="broker CPU per commit", unit="us", better=Better.LOWER),
    *(
        Metric(
            key=f"commit_{percentile}_ms",
            name=f"a commit at {COMMITS_PER_S:,}/s",
            variant=percentile,
            unit="ms",
            better=Better.LOWER,
        )
        for percentile in ("p50", "p99")
    ),
)

MANY_GROUPS: Final = 1_000
MANY_GROUPS_SETTINGS: Final = {
    **SETTINGS,
    # The members of the first groups send no heartbeats while the other groups form.
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
}
MEMBERS_OF_EACH: Final = 10
MANY_GROUPS_METRICS: Final = (
    Metric(key="formed_s", name="all groups form", unit="s", better=Better.LOWER),
    Metric(key="formed_cpu_ms_per_group", name="broker CPU per group", unit="ms", better=Better.LOWER),
    Metric(key="heartbeats_per_s", name="heartbeats", unit="1/s", better=Better.HIGHER),
    Metric(key="cpu_us_per_heartbeat", name="broker CPU per heartbeat", unit="us", better=Better.LOWER),
    Metric(key="rebalance_ms", name="one more member joins a group", unit="ms", better=Better.LOWER),
    METRICS[2],
    METRICS[3],
)


def group_cases(effort: Effort) -> list[Case]:
    """Return a case for each protocol and number of members, one for many groups, and one for a load."""
    counts = MEMBERS[:2] if effort.is_short else MEMBERS
    cases = [_case(protocol, count, effort) for protocol in PROTOCOLS for count in counts]
    return [*cases, _many_groups(int(MANY_GROUPS * effort.scale), effort.seconds), load_case(effort)]


def _many_groups(groups: int, seconds: float) -> Case:
    return Case(
        group=f"{groups:,} groups, consumer protocol",
        variant=f"{MEMBERS_OF_EACH} members each",
        metrics=MANY_GROUPS_METRICS,
        setup=Setup(settings=tuple(MANY_GROUPS_SETTINGS.items())),
        prepare=partial(_prepare_many_groups, groups // 10),
        prepare_s=5.0 + groups / 200,
        turn=partial(_turn_of_many_groups, groups, seconds),
        turn_s=5.0 + groups / 25,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _prepare_many_groups(groups: int, brokers: Brokers) -> None:
    brokers.create_topic(TOPIC, MEMBERS_OF_EACH)
    brokers.wait_until_served(TOPIC, MEMBERS_OF_EACH)
    _turn_of_many_groups(groups, 0.5, brokers)


def _turn_of_many_groups(groups: int, seconds: float, brokers: Brokers) -> Findings:
    return run_load(
        "many_groups",
        host="127.0.0.1",
        port=brokers.ports[0],
        topic=TOPIC,
        groups=groups,
        members=MEMBERS_OF_EACH,
        seconds=seconds,
        pids=brokers.pids,
    )


def _case(protocol: str, members: int, effort: Effort) -> Case:
    return Case(
        group=f"{protocol} protocol",
        variant=f"{members:,} members",
        metrics=METRICS,
        setup=Setup(settings=tuple(SETTINGS.items())),
        prepare=partial(_prepare, protocol, members),
        prepare_s=2.0 + members / 500,
        turn=partial(_turn, protocol, members, effort.seconds),
        turn_s=3 * effort.seconds + 1.0 + members / 250,
        clean_up=lambda brokers: brokers.delete_topic(TOPIC),
    )


def _prepare(protocol: str, members: int, brokers: Brokers) -> None:
    """Create the topic, and run the load once, so that Java's compiler has compiled the coordinator."""
    brokers.create_topic(TOPIC, members)
    brokers.wait_until_served(TOPIC, members)
    _turn(protocol, members, 0.5, brokers)


def _turn(protocol: str, members: int, seconds: float, brokers: Brokers) -> Findings:
    return run_load(
        "groups",
        host="127.0.0.1",
        port=brokers.ports[0],
        topic=TOPIC,
        members=members,
        protocol=protocol,
        seconds=seconds,
        pids=brokers.pids,
    )


GROUPS: Final = Suite(
    name="groups",
    what="a group of 10, 100 and 1,000 members with a partition each, by the classic, the consumer and "
    "the streams protocol, and 1,000 groups of 10 members by the consumer protocol: the time and the "
    "broker's CPU until all members have their partitions after one more joins (all send a heartbeat at "
    "once), the rate of commits with one in flight for each member, and their latency at a fixed rate; "
    "the load of a coordinator partition with a million commits after a restart",
    cases=group_cases,
)
