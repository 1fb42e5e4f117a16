"""Large messages are encoded and decoded in short steps with the same result."""

from __future__ import annotations

import pytest

from tests.support.messages.all_messages import all_messages, versions_of
from tests.support.messages.random_messages import random_messages
from tidelog.protocol.codec import (
    BYTES_PER_ELEMENT,
    ELEMENTS_MAX,
    decode,
    decode_in_steps,
    encode,
    encode_in_steps,
    has_more_elements,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.framing import (
    RESPONSE_PART_BYTES,
    encode_response,
    encode_response_in_steps,
)
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from tidelog.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.schema import Message
from tidelog.protocol.steps import BYTES_PER_STEP, Steps, run_steps


def steps_of(steps: Steps[object]) -> int:
    """Return the number of steps."""
    return sum(1 for _ in steps)


def encode_in_slices(message: Message, version: int) -> bytes:
    out = bytearray()
    run_steps(encode_in_steps(message, version, out))
    return bytes(out)


def varint(value: int) -> bytes:
    """Return the compact form of `value`."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def names(count: int) -> MetadataRequest:
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"topic-{n}") for n in range(count)))


def topics(count: int, partitions: int) -> MetadataResponse:
    topic = MetadataResponseTopic(
        name="tides",
        partitions=tuple(MetadataResponsePartition(partition_index=n) for n in range(partitions)),
    )
    return MetadataResponse(topics=(topic,) * count)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_every_message_is_decoded_equally_in_steps(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for message in random_messages(cls, version, "steps"):
            data = encode(message, version)
            assert encode_in_slices(message, version) == data
            assert run_steps(decode_in_steps(cls, data, version)) == decode(cls, data, version)


def test_a_large_message_takes_many_steps_and_a_small_one_few() -> None:
    for version in (4, 12):
        assert steps_of(encode_in_steps(names(1), version, bytearray())) <= 3
        assert steps_of(encode_in_steps(names(10_000), version, bytearray())) > 500
        assert steps_of(decode_in_steps(MetadataRequest, encode(names(1), version), version)) <= 3
        assert steps_of(decode_in_steps(MetadataRequest, encode(names(10_000), version), version)) > 500


def test_nested_arrays_have_steps_on_both_levels() -> None:
    for message in (topics(2, 8_000), topics(8_000, 2)):
        data = encode(message, 12)
        assert steps_of(encode_in_steps(message, 12, bytearray())) > 500
        assert steps_of(decode_in_steps(MetadataResponse, data, 12)) > 500


def test_long_arrays_of_numbers_are_read_in_steps() -> None:
    topic = DescribableLogDirTopic(topic="tides", partitions=tuple(range(100_000)))
    message = DescribeLogDirsRequest(topics=(topic,))
    data = encode(message, 4)
    assert steps_of(decode_in_steps(DescribeLogDirsRequest, data, 4)) > 20
    assert run_steps(decode_in_steps(DescribeLogDirsRequest, data, 4)) == message


@pytest.mark.parametrize("version", [3, 5])
def test_a_long_field_of_bytes_is_copied_in_steps(version: int) -> None:
    pieces = 12
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=bytes(pieces * BYTES_PER_STEP - 1))
    message = SyncGroupRequest(group_id="g", assignments=(assignment,))
    data = encode(message, version)
    assert steps_of(encode_in_steps(message, version, bytearray())) >= pieces
    assert steps_of(decode_in_steps(SyncGroupRequest, data, version)) >= pieces
    assert run_steps(decode_in_steps(SyncGroupRequest, data, version)) == message
    with pytest.raises(DecodeError):
        run_steps(decode_in_steps(SyncGroupRequest, data[:-BYTES_PER_STEP], version))


@pytest.mark.parametrize("count", [ELEMENTS_MAX + 100, 0x7FFF_FFFF])
def test_an_array_with_more_numbers_than_the_bound_is_refused(count: int) -> None:
    data = bytes.fromhex("02 06") + b"tides" + varint(count + 1) + bytes((ELEMENTS_MAX + 100) * 4)
    with pytest.raises(DecodeError):
        run_steps(decode_in_steps(DescribeLogDirsRequest, data, 4))


def test_an_array_with_more_structs_than_the_bound_is_refused() -> None:
    count = ELEMENTS_MAX + 100
    data = varint(count + 1) + (bytes(16) + bytes.fromhex("01 00")) * count
    with pytest.raises(DecodeError, match="more than 1000000 elements"):
        run_steps(decode_in_steps(MetadataRequest, data, 12))


def test_trailing_damage_is_detected_after_the_last_step() -> None:
    data = encode(names(100), 12)
    for damaged in (data[:-1], data[:50], b"\xff\xff\xff\xff\x0f" + data[1:]):
        with pytest.raises(DecodeError):
            run_steps(decode_in_steps(MetadataRequest, damaged, 12))


def test_a_field_that_a_version_lacks_is_refused_with_a_message() -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="a"), MetadataRequestTopic(name=None)))
    with pytest.raises(ValueError, match=r"topics\[1\].name is None: cannot be null in version 9"):
        run_steps(encode_in_steps(request, 9, bytearray()))


def test_elements_are_counted_on_all_levels_up_to_the_limit() -> None:
    message = topics(3, 5)
    assert has_more_elements(message, 12, 17)
    assert not has_more_elements(message, 12, 18)
    assert not has_more_elements(MetadataRequest(topics=None), 12, 0)


def test_a_response_frame_is_encoded_equally_in_steps() -> None:
    response = ApiVersionsResponse(api_keys=tuple(ApiVersion(api_key=n) for n in range(60)))
    for version in (0, 3):
        parts = run_steps(encode_response_in_steps(18, version, 9, response))
        assert b"".join(parts) == encode_response(18, version, 9, response)


def test_a_large_response_is_encoded_in_parts_so_that_no_large_buffer_grows() -> None:
    """A bytearray of 36 MB was moved to new memory as it grew, which blocked the event loop for 9 ms."""
    member = DescribedGroupMember(member_metadata=bytes(900_000))
    response = DescribeGroupsResponse(groups=(DescribedGroup(members=(member,)),) * 40)
    parts = run_steps(encode_response_in_steps(15, 5, 9, response))
    assert all(RESPONSE_PART_BYTES < len(part) < 2 * RESPONSE_PART_BYTES for part in parts[:-1])
    assert len(parts[-1]) <= RESPONSE_PART_BYTES
    assert b"".join(parts) == encode_response(15, 5, 9, response)


def test_byte_fields_count_as_several_elements() -> None:
    """40 groups with 900 kB each were encoded in one piece, which blocked the event loop."""
    member = DescribedGroupMember(member_metadata=bytes(10 * BYTES_PER_ELEMENT))
    message = DescribeGroupsResponse(groups=(DescribedGroup(members=(member,)),))
    assert has_more_elements(message, 5, 11)
    assert not has_more_elements(message, 5, 12)
