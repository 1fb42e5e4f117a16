"""The target assignment of a large group, which is computed in steps and then written in one step.

Steps also create and encode the records, so that the step that writes them is short.

I/O: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.members.prepared_record import encode_record_in_steps
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord, encode_record
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecord, EncodedRecords
from tidelog.protocol.steps import Steps

TargetRecord: TypeAlias = Callable[[str, str, TargetPartitions], ConsumerGroupRecord | ShareGroupRecord]
"""Returns the record of a target; its arguments are the group id, the member id and the partitions."""


class MemberTarget(NamedTuple):
    """The new target of a member, the previous one, and the record if they differ.

    `instance_id` is that of a static member.
    """

    member_id: str
    instance_id: str | None
    partitions: TargetPartitions
    previous: TargetPartitions | None
    record: tuple[CoordinatorRecord, EncodedRecord] | None


ComputedTarget: TypeAlias = list[MemberTarget]


def compute_target(
    group_id: str,
    assignment: Steps[Mapping[str, TargetPartitions]],
    previous: Mapping[str, TargetPartitions],
    new_record: TargetRecord,
    instance_ids: Mapping[str, str],
) -> Steps[ComputedTarget]:
    """Return the targets of `assignment`; `previous` are the last ones, which must not change.

    `instance_ids` are those of the static members by member id.
    """
    computed: ComputedTarget = []
    for member_id, partitions in (yield from assignment).items():
        old, record = previous.get(member_id), None
        if partitions != old:
            value = new_record(group_id, member_id, partitions)
            record = value, (yield from encode_record_in_steps(value))
        computed.append(MemberTarget(member_id, instance_ids.get(member_id), partitions, old, record))
        yield None
    return computed


def target_writes(
    group_id: str,
    targets: Iterable[tuple[str, MemberTarget]],
    current: Mapping[str, TargetPartitions],
    new_record: TargetRecord,
    epoch_record: CoordinatorRecord,
) -> Writes:
    """Return the records of targets by the id of the member that gets them, and of their epoch.

    `current` are the targets of the group now: those of some members may have changed meanwhile.
    """
    records: list[CoordinatorRecord] = []
    encoded = EncodedRecords()
    for member_id, target in targets:
        written = target.record
        if member_id != target.member_id or current.get(member_id) is not target.previous:
            if current.get(member_id) == target.partitions:
                continue
            record = new_record(group_id, member_id, target.partitions)
            written = record, encode_record(record)
        if written is not None:
            records.append(written[0])
            encoded.append(written[1])
    records.append(epoch_record)
    encoded.append(encode_record(epoch_record))
    return Writes(tuple(records), encoded=encoded)
