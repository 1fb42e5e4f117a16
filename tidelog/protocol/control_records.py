"""The values of control records: transaction markers, and the control records of the metadata quorum.

Source: the schemas of the same names in Apache Kafka 4.3; KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class ControlRecordTypeSchema(Message):
    """`ControlRecordTypeSchema`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    type: Annotated[int, Int16("0+")] = 0


@message
class EndTxnMarker(Message):
    """`EndTxnMarker`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    coordinator_epoch: Annotated[int, Int32("0+")] = 0


@message
class Voter(Struct):
    """One entry of `voters` of `LeaderChangeMessage`."""

    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[UUID, Uuid("1+")] = ZERO_UUID


@message
class LeaderChangeMessage(Message):
    """`LeaderChangeMessage`, versions 0-1."""

    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    version: Annotated[int, Int16("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    voters: Annotated[tuple[Voter, ...], Array(Voter, "0+")] = ()
    granting_voters: Annotated[tuple[Voter, ...], Array(Voter, "0+")] = ()


@message
class SnapshotHeaderRecord(Message):
    """`SnapshotHeaderRecord`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    version: Annotated[int, Int16("0+")] = 0
    last_contained_log_timestamp: Annotated[int, Int64("0+")] = 0


@message
class SnapshotFooterRecord(Message):
    """`SnapshotFooterRecord`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    version: Annotated[int, Int16("0+")] = 0


@message
class KRaftVersionRecord(Message):
    """`KRaftVersionRecord`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    version: Annotated[int, Int16("0+")] = 0
    k_raft_version: Annotated[int, Int16("0+")] = 0


@message
class VotersRecordEndpoint(Struct):
    """One entry of `endpoints` of `VotersRecord`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class KRaftVersionFeature(Struct):
    """The struct `k_raft_version_feature` of `VotersRecord`."""

    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


@message
class VotersRecordVoter(Struct):
    """One entry of `voters` of `VotersRecord`."""

    voter_id: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    endpoints: Annotated[tuple[VotersRecordEndpoint, ...], Array(VotersRecordEndpoint, "0+")] = ()
    k_raft_version_feature: Annotated[KRaftVersionFeature, Nested(KRaftVersionFeature, "0+")] = (
        KRaftVersionFeature()
    )


@message
class VotersRecord(Message):
    """`VotersRecord`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    version: Annotated[int, Int16("0+")] = 0
    voters: Annotated[tuple[VotersRecordVoter, ...], Array(VotersRecordVoter, "0+")] = ()
