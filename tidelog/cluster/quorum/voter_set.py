"""The voters of the quorum, by id and directory id, with their endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.control_records import (
    KRaftVersionFeature,
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordVoter,
)
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ZERO_UUID

KRAFT_VERSION_STATIC: Final = 0
"""Voters come from `controller.quorum.voters`."""
KRAFT_VERSION_DYNAMIC: Final = 1
"""Voters come from the log (KIP-853)."""


class Endpoint(NamedTuple):
    """The address of a listener of a node."""

    listener_name: str
    host: str
    port: int


def preferred_endpoint(endpoints: Sequence[Endpoint], listener_names: Sequence[str]) -> Endpoint | None:
    """Return the endpoint of the first of these listeners that has one, else the first endpoint, if any."""
    for name in listener_names:
        for endpoint in endpoints:
            if endpoint.listener_name == name:
                return endpoint
    return endpoints[0] if endpoints else None


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: the node id, and the id of the log directory, None if unknown."""

    id: BrokerId
    directory_id: UUID | None = None

    @classmethod
    def of(cls, replica_id: BrokerId, directory_id: UUID) -> ReplicaKey:
        """Return the key for ids in a message, where the zero directory id means unknown."""
        return cls(replica_id, None if directory_id == ZERO_UUID else directory_id)

    @property
    def wire_directory_id(self) -> UUID:
        """The directory id as messages contain it: the zero id if unknown."""
        return ZERO_UUID if self.directory_id is None else self.directory_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter; `endpoints` in the order of its `controller.listener.names`."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_min: int = KRAFT_VERSION_STATIC
    kraft_version_max: int = KRAFT_VERSION_STATIC

    @property
    def id(self) -> BrokerId:
        """The node id."""
        return self.key.id


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters at some offset of the log, by node id.

    Source: KIP-853, VotersRecord.json.
    """

    by_id: Mapping[BrokerId, Voter] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """Return the set of `voters`, in order of ids; no id may occur twice."""
        ordered = sorted(voters, key=lambda voter: voter.id)
        by_id = {voter.id: voter for voter in ordered}
        assert len(by_id) == len(ordered), f"a voter occurs twice in {ordered}"
        return cls(by_id)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def ids(self) -> tuple[BrokerId, ...]:
        """The node ids in ascending order."""
        return tuple(self.by_id)

    @property
    def majority(self) -> int:
        """The number of voters that make a majority."""
        return len(self.by_id) // 2 + 1

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return this set with `voter`, which replaces a voter of the same id."""
        return VoterSet.of([each for each in self if each.id != voter.id] + [voter])

    def without(self, replica_id: BrokerId) -> VoterSet:
        """Return this set without the voter `replica_id`."""
        return VoterSet.of(each for each in self if each.id != replica_id)

    def to_record(self) -> VotersRecord:
        """Return the record for the log."""
        return VotersRecord(
            voters=tuple(
                VotersRecordVoter(
                    voter_id=voter.id,
                    voter_directory_id=voter.key.wire_directory_id,
                    endpoints=tuple(
                        VotersRecordEndpoint(name=name, host=host, port=port)
                        for name, host, port in voter.endpoints
                    ),
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.kraft_version_min,
                        max_supported_version=voter.kraft_version_max,
                    ),
                )
                for voter in self
            )
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        """Return the set in a record of the log."""
        return cls.of(
            Voter(
                key=ReplicaKey.of(voter.voter_id, voter.voter_directory_id),
                endpoints=tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
                kraft_version_min=voter.k_raft_version_feature.min_supported_version,
                kraft_version_max=voter.k_raft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )
