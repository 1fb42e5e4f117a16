"""The same random requests of streams groups to Tidelog and to Apache Kafka get the same responses.

Members join, leave, send wrong epochs, tasks and topologies, and commit offsets; administrators change the
number of standby replicas and delete the group. Which of several members gets a task may differ: Kafka's
choice depends on the order of its hash tables. The group is therefore compared when it is stable: epochs,
topology, and the tasks of all members together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.kafka.separate_brokers import run_separate_brokers
from tests.kafka.streams_group_comparison import SETTINGS, TOPICS, Broker, Comparison, Member, same
from tests.support.groups.streams_members import WORD_COUNT
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import streams_group_heartbeat as beat

STEPS = 120
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    with run_separate_brokers(tmp_path_factory, SETTINGS, TOPICS) as (ours, kafkas):
        yield Broker(ours), Broker(kafkas)


KINDS = {
    "join": 4,
    "leave": 2,
    "wrong epoch": 3,
    "rejoin": 1,
    "unknown member": 1,
    "unknown task": 1,
    "invalid": 4,
    "topology": 3,
    "standby": 2,
    "commit": 4,
    "fetch": 2,
    "delete group": 1,
    "list": 1,
    "other protocols": 1,
}
"""The requests with their relative frequencies."""

INVALID: tuple[dict[str, Any], ...] = (
    {"member_epoch": -3},
    {"member_epoch": -2},
    {"member_epoch": -1, "instance_id": "i"},
    {"instance_id": "i"},
    {"task_offsets": ()},
    {"task_end_offsets": ()},
    {"rebalance_timeout_ms": -1},
    {"topology": None},
    {"active_tasks": None},
    {"warmup_tasks": (beat.RequestTaskIds(subtopology_id="1", partitions=(0,)),)},
    {"standby_tasks": (beat.RequestTaskIds(subtopology_id="1", partitions=(0,)),)},
    {"member_epoch": 3},
    {"member_epoch": 3, "topology": None, "warmup_tasks": None},
    {"member_id": " "},
    {"rack_id": " "},
)


def changed(**fields: Any) -> beat.Topology:
    """Return the topology with other fields of its second subtopology."""
    first, second = WORD_COUNT.subtopologies
    return replace(WORD_COUNT, subtopologies=(first, replace(second, **fields)))


TOPOLOGIES = (
    changed(subtopology_id="2"),
    replace(WORD_COUNT, epoch=4),
    changed(source_topic_regex=("a.*",)),
    changed(state_changelog_topics=(beat.TopicInfo(name="counts", partitions=3),)),
    changed(repartition_source_topics=(beat.TopicInfo(name="in/valid"),)),
    changed(repartition_sink_topics=("__consumer_offsets",)),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_get_the_same_responses(brokers: tuple[Broker, Broker], seed: int) -> None:
    random = Random(seed)
    group = Comparison(brokers, f"g{seed}")
    for step in range(STEPS):
        kind = random.choices(list(KINDS), weights=list(KINDS.values()))[0]
        if not group.members and kind not in ("delete group", "list", "commit"):
            kind = "join"
        one_request(group, random, kind, step)
    assert group.errors.keys() >= {
        ErrorCode.NONE,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
    }, group.errors
    for member in list(group.members):
        group.leave("end", member)
    same("commit", [broker.commit("", -1, "lines") for broker in brokers])
    same("other protocols", [broker.fetch(None, -1) for broker in brokers])
    assert same("delete group", [broker.delete_group() for broker in brokers]) is ErrorCode.NONE
    same("deleted", [broker.described() for broker in brokers])


def one_request(group: Comparison, random: Random, kind: str, step: int) -> None:
    """Send one request to both."""
    brokers = group.brokers
    where = f"step {step}: {kind}"
    member = random.choice(group.members) if group.members else Member(f"x{step}", "p0")
    match kind:
        case "join":
            group.join(where, Member(f"m{step}", f"p{random.randrange(3)}"))
        case "leave":
            group.leave(where, member)
        case "wrong epoch":
            epoch = max(1, member.epochs[0] + random.choice((-3, -1, 1, 3)))
            group.send(where, member_id=member.member_id, member_epoch=epoch)
        case "rejoin":
            if len(group.members) < int(SETTINGS["group.streams.max.size"]):
                group.members.remove(member)
                group.join(where, member)
        case "unknown member":
            group.send(where, member_id="unknown", member_epoch=2)
        case "unknown task":
            tasks = (beat.RequestTaskIds(subtopology_id=random.choice("17"), partitions=(9,)),)
            group.send(where, **{**member.staying(0), "active_tasks": tasks})
        case "invalid":
            fields = random.choice(INVALID)
            group.send(f"{where} {fields}", **member.joining(**fields))
        case "topology":
            topology = random.choice(TOPOLOGIES)
            if len(group.members) < int(SETTINGS["group.streams.max.size"]):
                group.send(f"{where} {topology}", **member.joining(topology))
        case "standby":
            count = random.randrange(4)
            group.set_standby_replicas(where, count)
        case "commit":
            epoch = random.choice((member.epochs[0], -1, 1, member.epochs[0] + 1))
            topic, version = random.choice(("lines", "words", "right")), random.choice((8, 9, 9))
            code = same(where, [each.commit(member.member_id, epoch, topic, version) for each in brokers])
            group.errors[code] += 1
        case "fetch":
            sender, epoch = random.choice(((None, -1), (member.member_id, member.epochs[0]), ("unknown", 1)))
            same(where, [broker.fetch(sender, epoch) for broker in brokers])
        case "delete group":
            code = same(where, [broker.delete_group() for broker in brokers])
            group.errors[code] += 1
        case "list":
            state = random.choice(("Stable", "stable", "Empty", "NotReady", "not_ready"))
            same(where, [broker.listed((state,), ("streams",)) for broker in brokers])
            same(where, [broker.listed() for broker in brokers])
        case "other protocols":
            same(where, [broker.errors_of_other_protocols() for broker in brokers])


def test_missing_and_wrongly_partitioned_topics_have_the_same_statuses(
    brokers: tuple[Broker, Broker],
) -> None:
    topologies = {
        "no source": changed(repartition_source_topics=(), copartition_groups=()),
        "source": replace(
            WORD_COUNT, subtopologies=(beat.Subtopology(subtopology_id="0", source_topics=("nowhere",)),)
        ),
        "copartition": replace(
            WORD_COUNT,
            subtopologies=(
                beat.Subtopology(
                    subtopology_id="0",
                    source_topics=("lines", "right"),
                    copartition_groups=(beat.CopartitionGroup(source_topics=(0, 1)),),
                ),
            ),
        ),
        "existing": changed(state_changelog_topics=(beat.TopicInfo(name="right"),)),
        "loop": changed(
            repartition_sink_topics=("other",), repartition_source_topics=(beat.TopicInfo(name="other"),)
        ),
        "fixed": changed(repartition_source_topics=(beat.TopicInfo(name="words", partitions=7),)),
    }
    for name, topology in topologies.items():
        group = Comparison(brokers, f"topics-{name}")
        group.send(name, **Member("m", "p").joining(topology))
        same(name, [broker.described().group_state for broker in brokers])
        same(name, [broker.listed(("NotReady",)) for broker in brokers])
        same(name, [broker.listed(("not_ready",)) for broker in brokers])


def test_internal_topics_are_created_and_failures_are_reported_alike(brokers: tuple[Broker, Broker]) -> None:
    topology = changed(
        repartition_source_topics=(beat.TopicInfo(name="words"),),
        state_changelog_topics=(
            beat.TopicInfo(
                name="created", topic_configs=(beat.KeyValue(key="cleanup.policy", value="compact"),)
            ),
        ),
    )
    group = Comparison(brokers, "creation")
    member = Member("m", "p")
    group.send("join", **member.joining(topology))
    wait_until(lambda: all(has_tasks(broker, topology) for broker in brokers), timeout_s=30)
    same("created", [broker.described().topology for broker in brokers])
    broken = changed(
        state_changelog_topics=(
            beat.TopicInfo(
                name="failed", topic_configs=(beat.KeyValue(key="cleanup.policy", value="wrong"),)
            ),
        )
    )
    group = Comparison(brokers, "failure")
    group.send("join", **member.joining(broken))
    wait_until(
        lambda: all("Creation failed" in status_detail(broker, broken) for broker in brokers), timeout_s=30
    )
    details = [status_detail(broker, broken) for broker in brokers]
    for detail in details:
        assert detail.startswith(
            "Internal topics are missing: failed; Creation failed: failed (Invalid value wrong"
        )


def has_tasks(broker: Broker, topology: beat.Topology) -> bool:
    return bool(broker.heartbeat(**Member("m", "p").joining(topology)).active_tasks)


def status_detail(broker: Broker, topology: beat.Topology) -> str:
    response = broker.heartbeat(**Member("m", "p").joining(topology))
    assert response.status, response
    return response.status[0].status_detail


def test_a_shutdown_is_reported_alike(brokers: tuple[Broker, Broker]) -> None:
    group = Comparison(brokers, "shutdown")
    first, second = Member("m1", "p0"), Member("m2", "p1")
    group.join("first", first)
    group.join("second", second)
    group.send(
        "shutdown",
        **{
            **first.staying(0),
            "shutdown_application": True,
            "active_tasks": None,
            "standby_tasks": None,
            "warmup_tasks": None,
        },
    )
    group.send("other", member_id="m2", member_epoch=second.epochs[0])
    group.leave("leave", first)
    group.leave("leave", second)
    group.join("again", first)


def test_endpoints_are_reported_alike(brokers: tuple[Broker, Broker]) -> None:
    group = Comparison(brokers, "endpoints")
    group.join("first", Member("m1", "p0", beat.RequestEndpoint(host="left", port=1)))
    group.join("second", Member("m2", "p1", beat.RequestEndpoint(host="right", port=65_535)))
    summaries = []
    for broker in brokers:
        response = broker.heartbeat(
            member_id="m1", member_epoch=group.members[0].epochs[0], endpoint_information_epoch=-1
        )
        summaries.append(
            sorted(
                (
                    each.user_endpoint.host,
                    each.user_endpoint.port,
                    sorted((topic.topic, len(topic.partitions)) for topic in each.active_partitions),
                )
                for each in response.partitions_by_user_endpoint or ()
            )
        )
    same("endpoints", summaries)


def test_an_endpoint_while_topics_are_missing_is_an_error_of_kafka_only(
    brokers: tuple[Broker, Broker],
) -> None:
    Comparison(brokers, "early endpoint")
    member = Member("m", "p", beat.RequestEndpoint(host="left", port=1))
    source = beat.Subtopology(subtopology_id="0", source_topics=("nowhere",))
    topology = beat.Topology(subtopologies=(source,))
    ours, kafkas = (broker.heartbeat(**member.joining(topology)) for broker in brokers)
    assert kafkas.error_code == ErrorCode.UNKNOWN_SERVER_ERROR, "documented in docs/streams-groups.md"
    assert ours.error_code == ErrorCode.NONE
    assert ours.status is not None
    assert ours.status[0].status_detail == "Source topics nowhere are missing."


def test_the_records_of_kafka_are_read_and_written_byte_for_byte(brokers: tuple[Broker, Broker]) -> None:
    ours, kafkas = (broker.record_kinds() for broker in brokers)
    assert ours == kafkas
    assert len(ours) == 12
