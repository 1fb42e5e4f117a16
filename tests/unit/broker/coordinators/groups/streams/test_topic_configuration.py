"""The topics of a topology compared with the existing ones: counts, missing topics, copartitioning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.support.groups.streams_members import WORD_COUNT
from tidelog.broker.coordinators.groups.streams.topic_configuration import (
    TASKS_MAX,
    ConfiguredTopology,
    InternalTopic,
    configure,
)
from tidelog.broker.coordinators.groups.streams.topology import SUBTOPOLOGIES_MAX, StreamsTopology
from tidelog.broker.coordinators.groups.streams.topology_status import HeartbeatStatus
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)


def configured(subtopologies: Sequence[Subtopology], existing: Mapping[str, int]) -> ConfiguredTopology:
    topology = StreamsTopology.from_request(Topology(epoch=0, subtopologies=tuple(subtopologies)))
    return configure("g", topology, existing.get)


def problem_of(
    subtopologies: Sequence[Subtopology], existing: Mapping[str, int]
) -> tuple[HeartbeatStatus, str]:
    problem = configured(subtopologies, existing).problem
    assert problem is not None
    return problem.status, problem.detail


def rejection(*subtopologies: Subtopology, epoch: int = 0, existing: Mapping[str, int] | None = None) -> str:
    """Return the text of STREAMS_INVALID_TOPOLOGY."""
    with pytest.raises(KafkaError) as error:
        topology = StreamsTopology.from_request(Topology(epoch=epoch, subtopologies=subtopologies))
        configure("g", topology, (existing or {}).get)
    assert error.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    return str(error.value)


def topics(*names: str, partitions: int = 0) -> tuple[TopicInfo, ...]:
    return tuple(TopicInfo(name=name, partitions=partitions) for name in names)


WORDS = "words"
COUNTS = "counts"


def test_internal_topics_get_the_partition_count_of_their_source() -> None:
    result = configured(WORD_COUNT.subtopologies, {"lines": 3})
    assert result.missing == (
        InternalTopic(COUNTS, 3, 0, {"cleanup.policy": "compact"}),
        InternalTopic(WORDS, 3, 0, {}),
    )
    assert result.problem is not None
    assert result.problem.status is HeartbeatStatus.MISSING_INTERNAL_TOPICS
    assert result.problem.detail == f"Internal topics are missing: {COUNTS}, {WORDS}"
    assert result.subtopologies is not None
    assert [(each.task_count, each.is_stateful) for each in result.subtopologies.values()] == [
        (3, False),
        (3, True),
    ]


def test_a_topology_is_ready_when_all_topics_exist() -> None:
    result = configured(WORD_COUNT.subtopologies, {"lines": 3, WORDS: 3, COUNTS: 3})
    assert result.is_ready
    assert result.missing == ()


def test_missing_source_topics_are_listed_up_to_three() -> None:
    sources = Subtopology(subtopology_id="0", source_topics=("d", "b", "a", "c"))
    status, detail = problem_of([sources], {})
    assert status is HeartbeatStatus.MISSING_SOURCE_TOPICS
    assert detail == "Source topics a, b, c and 1 additional topics are missing."
    assert configured([sources], {}).subtopologies is None


def test_an_internal_topic_with_another_partition_count_is_a_problem() -> None:
    status, detail = problem_of(WORD_COUNT.subtopologies, {"lines": 3, COUNTS: 2})
    assert status is HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert detail == f"Existing topic {COUNTS} has different number of partitions: expected 3, found 2"


def test_an_existing_flexible_repartition_topic_keeps_its_partition_count() -> None:
    result = configured(WORD_COUNT.subtopologies, {"lines": 3, WORDS: 2, COUNTS: 2})
    assert result.is_ready
    assert result.subtopologies is not None
    assert [each.task_count for each in result.subtopologies.values()] == [3, 2]


def test_a_fixed_partition_count_of_a_repartition_topic_is_used() -> None:
    source, sink = WORD_COUNT.subtopologies
    fixed = Subtopology(
        subtopology_id="1",
        repartition_source_topics=topics(WORDS, partitions=7),
        state_changelog_topics=sink.state_changelog_topics,
    )
    result = configured([source, fixed], {"lines": 3})
    assert {topic.name: topic.partition_count for topic in result.missing} == {WORDS: 7, COUNTS: 7}


def test_counts_follow_chains_of_repartition_topics_in_any_order() -> None:
    last = Subtopology(subtopology_id="0", repartition_source_topics=topics("second"))
    middle = Subtopology(
        subtopology_id="1", repartition_source_topics=topics("first"), repartition_sink_topics=("second",)
    )
    first = Subtopology(subtopology_id="2", source_topics=("t",), repartition_sink_topics=("first",))
    result = configured([last, middle, first], {"t": 5})
    assert {topic.name: topic.partition_count for topic in result.missing} == {"first": 5, "second": 5}


def test_a_loop_of_repartition_topics_is_rejected() -> None:
    left = Subtopology(
        subtopology_id="0", repartition_source_topics=topics("a"), repartition_sink_topics=("b",)
    )
    right = Subtopology(
        subtopology_id="1", repartition_source_topics=topics("b"), repartition_sink_topics=("a",)
    )
    assert "There may be loops in the topology" in rejection(left, right)


def test_a_repartition_topic_that_nothing_writes_is_rejected() -> None:
    text = rejection(Subtopology(subtopology_id="0", repartition_source_topics=topics("a")))
    assert text.endswith("because a repartition source topic is never used as a sink topic.")


def test_copartitioned_source_topics_must_have_equal_counts() -> None:
    join = Subtopology(
        subtopology_id="0",
        source_topics=("left", "right"),
        copartition_groups=(CopartitionGroup(source_topics=(0, 1)),),
    )
    status, detail = problem_of([join], {"left": 2, "right": 3})
    assert status is HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert detail == "Following topics do not have the same number of partitions: [{left=2, right=3}]"
    assert configured([join], {"left": 2, "right": 2}).is_ready


def joined_with_repartition_topic(partitions: int) -> list[Subtopology]:
    """Return a topology that joins a topic with a repartition topic, which is written from another one."""
    return [
        Subtopology(subtopology_id="0", source_topics=("wide",), repartition_sink_topics=("r",)),
        Subtopology(
            subtopology_id="1",
            source_topics=("narrow",),
            repartition_source_topics=topics("r", partitions=partitions),
            copartition_groups=(CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,)),),
        ),
    ]


def test_a_flexible_repartition_topic_gets_the_count_of_the_topic_it_is_joined_with() -> None:
    result = configured(joined_with_repartition_topic(0), {"wide": 6, "narrow": 2})
    assert [(topic.name, topic.partition_count) for topic in result.missing] == [("r", 2)]


def test_a_fixed_repartition_topic_must_match_the_topic_it_is_joined_with() -> None:
    status, detail = problem_of(joined_with_repartition_topic(4), {"wide": 6, "narrow": 2})
    assert status is HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert detail == (
        "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [2] of the "
        "source topic."
    )


def test_copartitioned_repartition_topics_get_the_largest_count() -> None:
    result = configured(
        [
            Subtopology(subtopology_id="0", source_topics=("a",), repartition_sink_topics=("ra",)),
            Subtopology(subtopology_id="1", source_topics=("b",), repartition_sink_topics=("rb",)),
            Subtopology(
                subtopology_id="2",
                repartition_source_topics=topics("ra", "rb"),
                copartition_groups=(CopartitionGroup(repartition_source_topics=(0, 1)),),
            ),
        ],
        {"a": 2, "b": 5},
    )
    assert {topic.name: topic.partition_count for topic in result.missing} == {"ra": 5, "rb": 5}


def test_unusable_topologies_are_rejected() -> None:
    source = Subtopology(subtopology_id="0", source_topics=("t",))
    assert rejection(source, epoch=-1) == "Topology epoch -1 is negative."
    assert rejection(source, source) == "Subtopology 0 occurs twice."
    assert "No source topics found for subtopology 1" in rejection(Subtopology(subtopology_id="1"))
    out_of_range = CopartitionGroup(source_topics=(0, 1))
    text = rejection(
        Subtopology(subtopology_id="0", source_topics=("t",), copartition_groups=(out_of_range,))
    )
    assert text == "Subtopology 0: there is no topic with index 1."
    negative = Subtopology(subtopology_id="0", repartition_source_topics=topics("r", partitions=-1))
    assert rejection(negative) == "Topic r has -1 partitions."
    many = [
        Subtopology(subtopology_id=str(index), source_topics=("t",)) for index in range(SUBTOPOLOGIES_MAX + 1)
    ]
    assert rejection(*many) == "The topology has 1001 subtopologies; allowed are 1000."


def test_a_topology_with_too_many_tasks_is_rejected() -> None:
    count = TASKS_MAX // 100
    subtopologies = [
        Subtopology(subtopology_id=str(number), source_topics=("lines",)) for number in range(count + 1)
    ]
    text = rejection(*subtopologies, existing={"lines": 100})
    assert text == "The topology has 20100 tasks; allowed are 20000."
    assert configured(subtopologies[:count], {"lines": 100}).is_ready


def test_a_chain_of_all_subtopologies_in_reverse_order_is_read_in_linear_time() -> None:
    links = [
        Subtopology(
            subtopology_id=str(number),
            repartition_source_topics=topics(f"link-{number}"),
            repartition_sink_topics=(f"link-{number + 1}",),
        )
        for number in range(1, SUBTOPOLOGIES_MAX - 1)
    ]
    first = Subtopology(subtopology_id="0", source_topics=("lines",), repartition_sink_topics=("link-1",))
    last = Subtopology(
        subtopology_id="last", repartition_source_topics=topics(f"link-{SUBTOPOLOGIES_MAX - 1}")
    )
    reads: list[str] = []

    def existing(topic: str) -> int | None:
        reads.append(topic)
        return 3 if topic == "lines" else None

    topology = Topology(epoch=0, subtopologies=(last, *reversed(links), first))
    result = configure("g", StreamsTopology.from_request(topology), existing)
    assert {topic.partition_count for topic in result.missing} == {3}
    assert len(result.missing) == SUBTOPOLOGIES_MAX - 1
    assert reads.count("lines") < 10


def test_copartition_groups_do_not_read_all_fixed_topics_again() -> None:
    names = [f"topic-{number}" for number in range(2_000)]
    groups = tuple(CopartitionGroup(repartition_source_topics=(number,)) for number in range(len(names)))
    subtopology = Subtopology(
        subtopology_id="0",
        repartition_source_topics=topics(*names, partitions=3),
        copartition_groups=groups,
    )
    reads: list[str] = []

    def existing(topic: str) -> int | None:
        reads.append(topic)
        return None

    topology = StreamsTopology.from_request(Topology(epoch=0, subtopologies=(subtopology,)))
    assert len(configure("g", topology, existing).missing) == len(names)
    assert len(reads) < 10 * len(names)
