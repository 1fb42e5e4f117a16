"""ACL entries are added, removed and found by filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.metadata.images import (
    CLUSTER_ID,
    SeededRandomness,
    image_after_records,
    image_after_result,
)
from tidelog.base.randomness import new_uuid
from tidelog.cluster.acls import AclBinding, AclFilter, check_filter, matching_acls
from tidelog.cluster.controller.acls import create_acls, delete_acls
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.steps import run_steps

EMPTY = MetadataImage(cluster_id=CLUSTER_ID)
TOPIC, GROUP, CLUSTER = 2, 3, 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3
READER = AclBinding(TOPIC, "tides", LITERAL, "User:alice", "*", READ, ALLOW)
EVERYTHING = AclFilter(ANY, None, ANY, None, None, ANY, ANY)


def with_entries(*bindings: AclBinding) -> MetadataImage:
    result = create_acls(EMPTY, bindings, SeededRandomness())
    assert {outcome.code for outcome in result.reply} == {ErrorCode.NONE}
    return image_after_result(EMPTY, result)


def bindings_in(image: MetadataImage) -> set[AclBinding]:
    return {AclBinding.of(record) for record in image.access_control_entries.values()}


def test_entries_are_added_once() -> None:
    writer = READER._replace(operation=WRITE)
    image = with_entries(READER, writer, READER)
    assert bindings_in(image) == {READER, writer}
    assert len(image.access_control_entries) == 2
    again = create_acls(image, [READER], SeededRandomness(2))
    assert (again.records, [outcome.code for outcome in again.reply]) == ((), [ErrorCode.NONE])


@pytest.mark.parametrize(
    "wrong",
    [
        READER._replace(resource_type=ANY),
        READER._replace(resource_type=0),
        READER._replace(resource_type=99),
        READER._replace(pattern_type=ANY),
        READER._replace(pattern_type=MATCH),
        READER._replace(operation=ANY),
        READER._replace(operation=0),
        READER._replace(permission_type=ANY),
        READER._replace(resource_name=""),
        READER._replace(resource_type=CLUSTER),
        READER._replace(principal="alice"),
    ],
)
def test_an_invalid_entry_is_refused_and_others_are_added(wrong: AclBinding) -> None:
    result = create_acls(EMPTY, [wrong, READER], SeededRandomness())
    assert [outcome.code for outcome in result.reply] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert bindings_in(image_after_result(EMPTY, result)) == {READER}


def test_the_cluster_resource_has_a_fixed_name() -> None:
    entry = READER._replace(resource_type=CLUSTER, resource_name="kafka-cluster")
    assert bindings_in(with_entries(entry)) == {entry}


def test_filters_remove_matching_entries() -> None:
    other = READER._replace(principal="User:bob")
    image = with_entries(READER, other)
    result = delete_acls(image, [EVERYTHING._replace(principal="User:alice")])
    assert result.reply[0].removed == (READER,)
    assert bindings_in(image_after_result(image, result)) == {other}


def test_an_entry_that_matches_two_filters_is_removed_once_and_reported_twice() -> None:
    image = with_entries(READER)
    result = delete_acls(image, [EVERYTHING, EVERYTHING])
    assert len(result.records) == 1
    assert [each.removed for each in result.reply] == [(READER,), (READER,)]


def test_an_invalid_filter_is_refused_and_others_apply() -> None:
    image = with_entries(READER)
    result = delete_acls(image, [EVERYTHING._replace(operation=0), EVERYTHING])
    assert [each.outcome.code for each in result.reply] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_a_request_with_too_many_entries_changes_nothing() -> None:
    entry = AccessControlEntryRecord(**READER._asdict())
    records = [
        replace(entry, id=new_uuid(SeededRandomness(seed)), resource_name=f"tides-{seed}")
        for seed in range(MAX_RECORDS_PER_COMMAND + 1)
    ]
    image = image_after_records(records, EMPTY)
    result = delete_acls(image, [EVERYTHING, EVERYTHING._replace(resource_name="tides-7")])
    assert result.reply[0].outcome.code is ErrorCode.INVALID_REQUEST
    assert len(result.records) == 1


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        (None, ANY, {"tides", "ti", "*", "moons"}),
        ("tides", ANY, {"tides"}),
        ("tides", LITERAL, {"tides"}),
        ("ti", LITERAL, set()),
        ("ti", PREFIXED, {"ti"}),
        ("tides", PREFIXED, set()),
        ("tides", MATCH, {"tides", "ti", "*"}),
        ("timing", MATCH, {"ti", "*"}),
        ("*", MATCH, {"*"}),
        ("*", LITERAL, {"*"}),
        (None, PREFIXED, {"ti"}),
    ],
)
def test_resource_names_match_according_to_the_pattern_type(
    name: str | None, pattern: int, expected: set[str]
) -> None:
    image = with_entries(
        READER,
        READER._replace(resource_name="ti", pattern_type=PREFIXED),
        READER._replace(resource_name="*"),
        READER._replace(resource_name="moons"),
    )
    requested = EVERYTHING._replace(resource_name=name, pattern_type=pattern)
    assert {record.resource_name for record in run_steps(matching_acls(image, requested))} == expected


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({"resource_type": TOPIC}, True),
        ({"resource_type": GROUP}, False),
        ({"host": "*"}, True),
        ({"host": "10.0.0.1"}, False),
        ({"operation": READ}, True),
        ({"operation": WRITE}, False),
        ({"permission_type": ALLOW}, True),
        ({"permission_type": DENY}, False),
        ({"principal": "User:bob"}, False),
    ],
)
def test_every_field_of_a_filter_restricts_the_match(changes: dict[str, object], fits: bool) -> None:
    assert EVERYTHING._replace(**changes).matches(READER) is fits  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
def test_an_unknown_enum_value_in_a_filter_is_refused(field: str) -> None:
    check_filter(EVERYTHING)
    for number in (0, 99, -1):
        with pytest.raises(KafkaError) as error:
            check_filter(EVERYTHING._replace(**cast(dict[str, Any], {field: number})))
        assert error.value.code is ErrorCode.INVALID_REQUEST


NAMES = st.sampled_from(["", "*", "t", "ti", "tides", "times", "moons", "a" * 300])
BINDINGS = st.builds(
    AclBinding,
    resource_type=st.sampled_from([TOPIC, GROUP]),
    resource_name=NAMES.filter(bool),
    pattern_type=st.sampled_from([LITERAL, PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob"]),
    host=st.sampled_from(["*", "10.0.0.1"]),
    operation=st.sampled_from([READ, WRITE]),
    permission_type=st.sampled_from([DENY, ALLOW]),
)
FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from([ANY, TOPIC, GROUP]),
    resource_name=st.none() | NAMES,
    pattern_type=st.sampled_from([ANY, MATCH, LITERAL, PREFIXED]),
    principal=st.none() | st.just("User:alice"),
    host=st.none() | st.just("*"),
    operation=st.sampled_from([ANY, READ]),
    permission_type=st.sampled_from([ANY, DENY]),
)


@given(st.lists(st.lists(BINDINGS, max_size=12) | FILTERS, max_size=8), FILTERS)
def test_a_filter_selects_the_same_entries_as_a_scan_of_all(
    changes: list[list[AclBinding] | AclFilter], acl_filter: AclFilter
) -> None:
    image = EMPTY
    for number, change in enumerate(changes):
        if isinstance(change, AclFilter):
            image = image_after_result(image, delete_acls(image, [change]))
        else:
            image = image_after_result(image, create_acls(image, change, SeededRandomness(number)))
    entries = image.access_control_entries.values()
    assert len(bindings_in(image)) == len(entries)
    assert {each.id for each in run_steps(matching_acls(image, acl_filter))} == {
        each.id for each in entries if acl_filter.matches(AclBinding.of(each))
    }
    assert len(image.acls_by_resource) == len({each.resource_name for each in entries})


def test_a_filter_with_a_resource_name_does_not_read_the_entries_of_others() -> None:
    names = [f"tides-{number}" for number in range(1000)]
    image = with_entries(*(READER._replace(resource_name=name) for name in names))
    for pattern_type in (LITERAL, ANY, MATCH):
        requested = EVERYTHING._replace(resource_name="tides-7", pattern_type=pattern_type)
        steps = list(matching_acls(image, requested))
        assert len(steps) <= 2 * len("tides-7")


def test_a_change_does_not_modify_the_entries_of_the_previous_image() -> None:
    before = with_entries(READER)
    image_after_result(before, delete_acls(before, [EVERYTHING]))
    image_after_result(before, create_acls(before, [READER._replace(operation=WRITE)], SeededRandomness(3)))
    assert [AclBinding.of(each) for each in before.acls_by_resource.of_name("tides")] == [READER]
