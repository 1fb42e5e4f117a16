"""The message declarations observe the rules of Kafka's message generator."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, asdict, fields, replace
from typing import Any

import pytest

from tests.support.messages.all_messages import all_messages, versions_of
from tests.support.messages.random_messages import declared_fields, inner_struct
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.codec_plan import plan_struct
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.schema import Array, Bytes, Message, Nested, String, Struct, Versions, versions


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("3+", [3, 4, 32767], [-1, 0, 2]),
        ("0-7", [0, 3, 7], [-1, 8]),
        ("5", [5], [4, 6]),
        ("none", [], [-1, 0, 1, 32767]),
    ],
)
def test_versions_are_read_in_kafkas_notation(text: str, inside: list[int], outside: list[int]) -> None:
    assert all(version in versions(text) for version in inside)
    assert not any(version in versions(text) for version in outside)


@pytest.mark.parametrize("text", ["", "x", "1-", "-", "+", "1-x"])
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        versions(text)


VOTE = VoteRequest(
    cluster_id="c", topics=(RequestTopicData(topic_name="t", partitions=(RequestPartitionData(),)),)
)
DECODED = decode(VoteRequest, encode(VOTE, 2), 2)


@pytest.mark.parametrize("vote", [VOTE, DECODED], ids=["constructed", "decoded"])
class TestAMessageIsAFrozenDataclass:
    """Constructed and decoded messages behave alike."""

    def test_a_message_is_frozen(self, vote: VoteRequest) -> None:
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'voter_id'"):
            vote.voter_id = 3  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
            vote.other = 3  # type: ignore[attr-defined]
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'voter_id'"):
            del vote.voter_id

    def test_a_message_has_slots_and_no_dictionary(self, vote: VoteRequest) -> None:
        assert not hasattr(vote, "__dict__")
        slots: tuple[str, ...] = VoteRequest.__slots__
        assert slots == ("cluster_id", "voter_id", "topics")

    def test_messages_with_equal_fields_are_equal(self, vote: VoteRequest) -> None:
        assert vote == VOTE == DECODED
        assert hash(vote) == hash(VOTE)
        assert vote != replace(vote, voter_id=7)

    def test_a_message_can_be_copied_and_pickled(self, vote: VoteRequest) -> None:
        assert copy.copy(vote) == copy.deepcopy(vote) == pickle.loads(pickle.dumps(vote)) == vote
        with pytest.raises(FrozenInstanceError):
            copy.copy(vote).voter_id = 3  # type: ignore[misc]

    def test_dataclass_functions_accept_a_message(self, vote: VoteRequest) -> None:
        assert [field.name for field in fields(vote)] == ["cluster_id", "voter_id", "topics"]
        assert replace(vote, voter_id=7).voter_id == 7
        assert asdict(vote)["topics"][0]["partitions"][0]["last_offset"] == 0

    def test_repr_names_every_field(self, vote: VoteRequest) -> None:
        assert repr(replace(vote, topics=())) == "VoteRequest(cluster_id='c', voter_id=-1, topics=())"


def test_messages_of_different_classes_are_never_equal() -> None:
    assert SaslHandshakeRequest(mechanism="x") != AddOffsetsToTxnRequest(transactional_id="x")
    assert SaslHandshakeRequest() != ("",)


def test_constructors_accept_only_keywords_of_existing_fields() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        SaslHandshakeRequest(nothing=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        SaslHandshakeRequest("x")  # type: ignore[call-arg]


def structs_in(cls: type[Struct]) -> Iterator[type[Struct]]:
    yield cls
    for field in declared_fields(cls):
        inner = inner_struct(field.kind)
        if inner is not None:
            yield from structs_in(inner)


MESSAGES = pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)


@MESSAGES
def test_tags_count_up_from_zero_and_exist_only_in_flexible_versions(cls: type[Message]) -> None:
    for struct in structs_in(cls):
        tags = [field.kind.tag for field in declared_fields(struct) if field.kind.tag is not None]
        assert sorted(tags) == list(range(len(tags)))
        for field in declared_fields(struct):
            tagged = field.kind.tagged
            assert (field.kind.tag is None) == (tagged == versions("none"))
            if field.kind.tag is not None:
                assert tagged.highest is None and tagged.lowest >= field.kind.present.lowest
                assert tagged.lowest >= cls.flexible_versions.lowest and cls.flexible_versions.highest is None


@MESSAGES
def test_only_nullable_types_are_declared_nullable(cls: type[Message]) -> None:
    for struct in structs_in(cls):
        for field in declared_fields(struct):
            if field.kind.nullable != versions("none"):
                assert isinstance(field.kind, String | Bytes | Array | Nested), field


@MESSAGES
def test_every_default_can_be_encoded_in_the_versions_of_its_field(cls: type[Message]) -> None:
    for struct in structs_in(cls):
        for field in declared_fields(struct):
            assert not isinstance(field.default, list | dict | set), field
            if field.default is None and not has_null_default_that_must_be_set(field.kind, field.name):
                assert all_in(field.kind.present, field.kind.nullable, versions_of(cls)), field


def has_null_default_that_must_be_set(kind: Any, name: str) -> bool:
    """Return whether the field is of the kind of ShareFetchResponse.records.

    Kafka's schema gives this field the default null, and forbids null from version 1.
    """
    return isinstance(kind, Bytes) and name == "records"


def all_in(some: Versions, others: Versions, existing: range) -> bool:
    return all(version in others for version in existing if version in some)


@MESSAGES
def test_every_element_of_an_array_takes_at_least_one_byte(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for plan in plan_struct(cls, version, version in cls.flexible_versions).nested():
            for field in (*plan.ordinary, *plan.tagged):
                if isinstance(field.kind, Array) and field.struct is not None:
                    assert field.struct.least_bytes >= 1, f"{plan.name}.{field.name} version {version}"


SECRET_FIELDS = frozenset(
    {
        "auth_bytes",
        "hmac",
        "salt",
        "salted_password",
        "stored_key",
        "server_key",
        "request_data",
        "response_data",
    }
)


def test_secrets_are_hidden_in_the_representation_of_every_message() -> None:
    """CVE-2026-33558: clients of Apache Kafka logged whole requests, with passwords and tokens."""
    structs = {struct for message in all_messages() for struct in structs_in(message)}
    hidden = {(struct.__name__, name) for struct in structs for name in struct.hidden_fields}
    secret = {
        (struct.__name__, field.name)
        for struct in structs
        for field in fields(struct)  # type: ignore[arg-type]
        if field.name in SECRET_FIELDS
    }
    assert hidden == secret | {("AlterableConfig", "value"), ("ConfigRecord", "value")}
    record = UserScramCredentialRecord(name="alice", stored_key=b"canary", server_key=b"canary")
    assert "alice" in repr(record)
    for message in (
        record,
        SaslAuthenticateRequest(auth_bytes=b"canary"),
        IncrementalAlterConfigsRequest(
            resources=(AlterConfigsResource(configs=(AlterableConfig(name="key", value="canary"),)),)
        ),
    ):
        assert "canary" not in repr(message)
        assert "[hidden]" in repr(message)
