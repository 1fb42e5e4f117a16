"""Creation and deletion of access control entries.

Source: AclControlManager and AclApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog.base.randomness import Randomness, new_uuid
from tidelog.cluster.acls import CLUSTER_NAME, AclBinding, AclFilter, check_filter, has_binding, matching_acls
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND, SUCCESS, ControllerResult, Outcome
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from tidelog.protocol.steps import run_steps


class Removal(NamedTuple):
    """The outcome of one filter, and the entries that it removes."""

    outcome: Outcome
    removed: tuple[AclBinding, ...] = ()


def create_acls(
    image: MetadataImage, bindings: Sequence[AclBinding], randomness: Randomness
) -> ControllerResult[list[Outcome]]:
    """Add entries; return outcomes in the order of `bindings`. An existing entry is a success."""
    new_bindings: set[AclBinding] = set()
    records: list[AccessControlEntryRecord] = []
    outcomes = []
    for binding in bindings:
        try:
            _check(binding)
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
            continue
        if binding not in new_bindings and not has_binding(image, binding):
            new_bindings.add(binding)
            records.append(AccessControlEntryRecord(id=_new_id(image, randomness), **binding._asdict()))
        outcomes.append(SUCCESS)
    return ControllerResult(tuple(records), outcomes)


def delete_acls(image: MetadataImage, filters: Sequence[AclFilter]) -> ControllerResult[list[Removal]]:
    """Delete the entries that match `filters`; each filter returns all its matches, even shared ones."""
    records: dict[UUID, RemoveAccessControlEntryRecord] = {}
    removals = []
    for acl_filter in filters:
        try:
            check_filter(acl_filter)
            matching = run_steps(matching_acls(image, acl_filter))
            new_records = {
                each.id: RemoveAccessControlEntryRecord(id=each.id)
                for each in matching
                if each.id not in records
            }
            if len(records) + len(new_records) > MAX_RECORDS_PER_COMMAND:
                text = f"Cannot remove more than {MAX_RECORDS_PER_COMMAND} acls in a single delete operation."
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            records |= new_records
            removals.append(Removal(SUCCESS, tuple(map(AclBinding.of, matching))))
        except KafkaError as error:
            removals.append(Removal(Outcome.of(error)))
    return ControllerResult(tuple(records.values()), removals)


def _check(binding: AclBinding) -> None:
    if binding.resource_type not in tuple(AclResourceType)[1:]:
        raise _invalid_request(f"Invalid resourceType {binding.resource_type}")
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid_request(
            f"Invalid patternType {binding.pattern_type}; allowed are LITERAL and PREFIXED"
        )
    if binding.operation not in tuple(AclOperation)[1:]:
        raise _invalid_request(f"Invalid operation {binding.operation}")
    if binding.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        raise _invalid_request(
            f"Invalid permissionType {binding.permission_type}; allowed are DENY and ALLOW"
        )
    if not binding.resource_name:
        raise _invalid_request("Resource name should not be empty")
    if binding.resource_type == AclResourceType.CLUSTER and binding.resource_name != CLUSTER_NAME:
        raise _invalid_request(
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}, not {binding.resource_name!r}"
        )
    if ":" not in binding.principal:
        raise _invalid_request(
            f"Could not parse principal from {binding.principal!r}; it must have the form type:name"
        )


def _new_id(image: MetadataImage, randomness: Randomness) -> UUID:
    while (candidate := new_uuid(randomness)) in image.access_control_entries:
        pass
    return candidate


def _invalid_request(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
