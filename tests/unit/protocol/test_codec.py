"""The message codec: versions, skipped fields, and errors."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any
from uuid import UUID

import pytest

from tidelog.protocol.codec import decode, decode_prefix, encode, encode_into
from tidelog.protocol.coordinator_records.transaction_log import TransactionLogValue
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tidelog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor
from tidelog.protocol.messages.fetch import FetchRequest, ReplicaState
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.metadata import MetadataResponsePartition as Partition
from tidelog.protocol.messages.metadata import MetadataResponseTopic as Topic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

EMPTY_API_VERSIONS_RESPONSE = bytes.fromhex("00000100000000")
"""ApiVersionsResponse version 3 up to the count of its tagged fields."""


def test_a_classic_version_has_fixed_lengths_and_no_tagged_fields() -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="ab"), MetadataRequestTopic(name="")))
    assert encode(request, 4).hex(" ") == "00 00 00 02 00 02 61 62 00 00 01"


def test_a_flexible_version_has_compact_lengths_and_tagged_fields_in_every_struct() -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name="ab"), MetadataRequestTopic(name="")))
    assert encode(request, 9).hex(" ") == "03 03 61 62 00 01 00 01 00 00 00"


def test_null_is_minus_one_or_compact_zero() -> None:
    assert encode(MetadataRequest(topics=None), 1).hex(" ") == "ff ff ff ff"
    assert encode(MetadataRequest(topics=None), 9).hex(" ") == "00 01 00 00 00"


def test_a_nullable_struct_has_a_marker_byte() -> None:
    without, cursor = DescribeTopicPartitionsRequest(), RequestCursor(topic_name="t", partition_index=3)
    assert encode(without, 0).hex(" ") == "01 00 00 07 d0 ff 00"
    assert encode(replace(without, cursor=cursor), 0).hex(" ") == (
        "01 00 00 07 d0 01 02 74 00 00 00 03 00 00"
    )
    assert decode(DescribeTopicPartitionsRequest, bytes.fromhex("01000007d0fe00"), 0) == without


def test_only_set_tagged_fields_are_written_in_tag_order() -> None:
    response = ApiVersionsResponse(
        supported_features=(SupportedFeatureKey(name="f", min_version=1, max_version=2),),
        zk_migration_ready=True,
    )
    assert encode(response, 3) == EMPTY_API_VERSIONS_RESPONSE + bytes.fromhex(
        "02000802 0266 0001 0002 00030101"
    )
    assert encode(ApiVersionsResponse(), 3) == EMPTY_API_VERSIONS_RESPONSE + b"\0"


def test_a_tagged_struct_is_written_when_it_differs_from_its_default() -> None:
    plain = encode(FetchRequest(replica_state=ReplicaState(replica_id=-1, replica_epoch=-1)), 15)
    assert plain == encode(FetchRequest(), 15)
    data = encode(FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=9)), 15)
    assert data == plain[:-1] + bytes.fromhex("01010d00000002000000000000000900")


def test_unknown_tagged_fields_are_skipped() -> None:
    data = bytes.fromhex("02610262020703aabbcc8f0100")
    request = decode(ApiVersionsRequest, data, 3)
    assert request == ApiVersionsRequest(client_software_name="a", client_software_version="b")
    known_and_unknown = EMPTY_API_VERSIONS_RESPONSE + bytes.fromhex("030901ff010800000000000000050a00")
    response = decode(ApiVersionsResponse, known_and_unknown, 3)
    assert response == ApiVersionsResponse(finalized_features_epoch=5)


def test_unordered_or_repeated_tagged_fields_are_read_as_in_kafka() -> None:
    data = EMPTY_API_VERSIONS_RESPONSE + bytes.fromhex("030301010108" + "00" * 7 + "050108" + "00" * 7 + "06")
    expected = ApiVersionsResponse(finalized_features_epoch=6, zk_migration_ready=True)
    assert decode(ApiVersionsResponse, data, 3) == expected


@pytest.mark.parametrize("size", ["04", "07", "09", "0a"])
def test_a_tagged_field_with_a_wrong_size_is_refused(size: str) -> None:
    data = EMPTY_API_VERSIONS_RESPONSE + bytes.fromhex("0101" + size + "00" * 7 + "050000")
    with pytest.raises(DecodeError):
        decode(ApiVersionsResponse, data, 3)


def test_any_nonzero_byte_is_true() -> None:
    assert decode(MetadataRequest, bytes.fromhex("000000007f"), 4).allow_auto_topic_creation is True
    assert decode(MetadataRequest, bytes.fromhex("0000000000"), 4).allow_auto_topic_creation is False


def test_a_field_missing_in_a_version_gets_its_default() -> None:
    topic = Topic(name="t", topic_id=UUID(int=7), is_internal=True, partitions=(Partition(leader_epoch=4),))
    back = decode(MetadataResponse, encode(MetadataResponse(cluster_id="c", topics=(topic,)), 0), 0)
    assert back == MetadataResponse(topics=(Topic(name="t", partitions=(Partition(),)),))


def test_a_set_field_that_a_version_lacks_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"FindCoordinatorRequest.key_type is 1: the field does not exist in version 0"
    ):
        encode(FindCoordinatorRequest(key="k", key_type=1), 0)
    assert encode(FindCoordinatorRequest(key="k", key_type=0), 0).hex(" ") == "00 01 6b"
    with pytest.raises(ValueError, match="next_producer_id is 5"):
        encode(TransactionLogValue(next_producer_id=5), 0)


@pytest.mark.parametrize(
    ("message", "version", "words"),
    [
        (MetadataRequest(topics=None), 0, r"MetadataRequest\.topics is None: cannot be null in version 0"),
        (
            MetadataResponse(topics=(Topic(name="a"), Topic(name=None))),
            11,
            r"MetadataResponse\.topics\[1\]\.name is None",
        ),
        (MetadataRequest(topics=(MetadataRequestTopic(name="x" * 32768),)), 9, "longer than 32767 bytes"),
        (MetadataRequest(topics=(MetadataRequestTopic(name="x" * 32768),)), 1, "longer than 32767 bytes"),
        (MetadataRequest(topics=(MetadataRequestTopic(name="\ud800"),)), 9, "not encodable in UTF-8"),
        (MetadataResponse(controller_id=2**31), 9, r"controller_id is 2147483648: not within"),
        (MetadataResponse(topics=(Topic(error_code=-32769),)), 9, "error_code is -32769: not within"),
        (
            MetadataResponse(topics=(Topic(partitions=(Partition(isr_nodes=(1, 2**31)),)),)),
            1,
            r"isr_nodes\[1\]",
        ),
        (MetadataResponse(controller_id="1"), 9, "controller_id is '1': not an integer"),  # type: ignore[arg-type]
        (MetadataResponse(brokers=5), 9, "brokers is 5: not a sequence"),  # type: ignore[arg-type]
        (MetadataResponse(brokers=(Topic(),)), 9, "not a MetadataResponseBroker"),  # type: ignore[arg-type]
        (MetadataResponse(cluster_id=b"raw"), 9, "not a string"),  # type: ignore[arg-type]
    ],
)
def test_the_error_names_the_field_and_the_value(message: MetadataRequest, version: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode(message, version)


def test_the_error_does_not_show_a_secret() -> None:
    """The value of a config can be a password, or the PEM text of a private key."""
    request = IncrementalAlterConfigsRequest(
        resources=(
            AlterConfigsResource(configs=(AlterableConfig(name="ssl.keystore.key", value="canary" * 6_000),)),
        )
    )
    with pytest.raises(ValueError, match=r"configs\[0\]\.value is \[hidden\]: longer than 32767") as error:
        encode(request, 1)
    assert "canary" not in str(error.value)


def test_a_refused_message_writes_no_bytes() -> None:
    out = bytearray(b"before")
    with pytest.raises(ValueError, match="name"):
        encode_into(MetadataResponse(topics=(Topic(name="a"), Topic(name=None))), 11, out)
    assert out == b"before"


@pytest.mark.parametrize("version", [-1, 14])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"MetadataRequest has no version {version}"):
        encode(MetadataRequest(), version)
    with pytest.raises(ValueError, match=f"MetadataRequest has no version {version}"):
        decode(MetadataRequest, b"", version)


def test_trailing_bytes_are_refused_unless_a_prefix_is_requested() -> None:
    data = b"??" + encode(MetadataRequest(topics=None), 9)
    with pytest.raises(DecodeError, match="3 bytes remain after MetadataRequest version 9"):
        decode(MetadataRequest, data[2:] + b"end", 9)
    assert decode_prefix(MetadataRequest, data + b"end", 9, 2) == (MetadataRequest(topics=None), len(data))


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_view_of_the_frame_and_other_bytes_are_copies(version: int) -> None:
    partition = PartitionProduceData(index=1, records=b"the batches")
    request = ProduceRequest(topic_data=(TopicProduceData(name="t", partition_data=(partition,)),))
    frame = bytearray(encode(request, version))
    back = decode(ProduceRequest, frame, version)
    records = back.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview) and records.obj is frame
    assert back == request
    frame[frame.index(b"the")] = ord("T")
    assert bytes(records) == b"The batches"


def test_records_are_written_from_a_view() -> None:
    view = memoryview(b"xxthe batchesxx")[2:-2]
    buffers: list[Any] = [b"the batches", view, bytearray(b"the batches")]
    for records in buffers:
        partition = PartitionProduceData(index=1, records=records)
        request = ProduceRequest(topic_data=(TopicProduceData(name="t", partition_data=(partition,)),))
        assert encode(request, 9).count(b"the batches") == 1


def test_a_decoded_message_is_frozen_and_hashable() -> None:
    response = MetadataResponse(topics=(Topic(name="t", partitions=(Partition(isr_nodes=(1, 2)),)),))
    back = decode(MetadataResponse, encode(response, 12), 12)
    assert back == response and hash(back) == hash(response) and repr(back) == repr(response)
    assert type(back) is MetadataResponse and type(back.topics[0]) is Topic
    with pytest.raises(FrozenInstanceError):
        back.topics[0].name = "u"  # type: ignore[misc]
    assert replace(back.topics[0], name="u").name == "u"


@pytest.mark.parametrize("length", ["fffe", "8000", "ff00"])
def test_a_negative_length_other_than_null_is_refused(length: str) -> None:
    with pytest.raises(DecodeError):
        decode(MetadataRequest, bytes.fromhex("00000001" + length + "61" * 4), 1)
    with pytest.raises(DecodeError):
        decode(MetadataRequest, bytes.fromhex("ffff" + length), 1)


def test_null_is_refused_where_it_is_not_allowed() -> None:
    for data, version in (("ffffffff", 0), ("00000001ffff", 1), ("02000001000000", 9)):
        with pytest.raises(
            DecodeError, match=r"MetadataRequest.* cannot be null, but has the length (-1|0) "
        ):
            decode(MetadataRequest, bytes.fromhex(data), version)


@pytest.mark.parametrize("text", ["ff", "c080", "eda080", "f8888080", "e282"])
def test_invalid_utf_8_is_refused(text: str) -> None:
    raw = bytes.fromhex(text)
    with pytest.raises(DecodeError, match="utf-8"):
        decode(FindCoordinatorRequest, len(raw).to_bytes(2, "big") + raw, 0)


def test_a_string_over_32767_bytes_is_refused_in_flexible_versions_too() -> None:
    longest = "x" * 32767
    data = encode(ApiVersionsRequest(client_software_name=longest), 3)
    assert decode(ApiVersionsRequest, data, 3).client_software_name == longest
    over = bytes.fromhex("818002") + b"x" * 32768 + b"\x01\0"
    with pytest.raises(DecodeError, match="32768"):
        decode(ApiVersionsRequest, over, 3)
