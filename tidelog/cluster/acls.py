"""Access control entries (ACLs), and filters that select them.

This module does not authorize requests.

Source: KIP-11, KIP-290; AclBindingFilter and AccessControlEntryFilter of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.steps import Steps

WILDCARD_RESOURCE: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only valid name of a resource of type CLUSTER."""


class AclBinding(NamedTuple):
    """One access control entry, without its id."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> AclBinding:
        """Return the binding in a record of the metadata log."""
        return cls(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )


class AclFilter(NamedTuple):
    """A filter of access control entries; None and ANY match every value."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, binding: AclBinding) -> bool:
        """Return whether the filter selects `binding`.

        The pattern type MATCH selects every entry that applies to the resource `resource_name`: by its
        name, a prefix or "*".
        """
        return (
            self.resource_type in (AclResourceType.ANY, binding.resource_type)
            and self._matches_name(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission_type in (PermissionType.ANY, binding.permission_type)
        )

    def _matches_name(self, binding: AclBinding) -> bool:
        any_pattern = self.pattern_type in (PatternType.ANY, PatternType.MATCH)
        if not any_pattern and self.pattern_type != binding.pattern_type:
            return False
        name = self.resource_name
        if name is None or name == binding.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if binding.pattern_type == PatternType.PREFIXED:
            return name.startswith(binding.resource_name)
        return binding.resource_name == WILDCARD_RESOURCE


def check_filter(acl_filter: AclFilter) -> None:
    """Raise KafkaError INVALID_REQUEST if an enumerated field of `acl_filter` has an unknown value."""
    for field, number, allowed in (
        ("resource type", acl_filter.resource_type, AclResourceType),
        ("pattern type", acl_filter.pattern_type, PatternType),
        ("operation", acl_filter.operation, AclOperation),
        ("permission type", acl_filter.permission_type, PermissionType),
    ):
        if number not in tuple(allowed):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown {field} in an ACL filter: {number}")


def matching_acls(image: MetadataImage, acl_filter: AclFilter) -> Steps[list[AccessControlEntryRecord]]:
    """Return the entries that match `acl_filter`.

    A filter with a resource name reads only the entries of the names that it can match.
    """
    matching = []
    for record in _candidates(image, acl_filter):
        yield None
        if record is not None and acl_filter.matches(AclBinding.of(record)):
            matching.append(record)
    return matching


def _candidates(image: MetadataImage, acl_filter: AclFilter) -> Iterator[AccessControlEntryRecord | None]:
    """Yield all entries that can match, and perhaps others; None for a name without entries."""
    name, index = acl_filter.resource_name, image.acls_by_resource
    if name is None:
        yield from image.access_control_entries.values()
    elif acl_filter.pattern_type != PatternType.MATCH:
        yield from index.of_name(name)
    elif len(name) >= len(index):
        # There are more prefixes of the name than names with entries.
        yield from image.access_control_entries.values()
    else:
        yield from index.of_name(WILDCARD_RESOURCE)
        for length in range(len(name) + 1):
            yield None
            if name[:length] != WILDCARD_RESOURCE:
                yield from index.of_name(name[:length])


def has_binding(image: MetadataImage, binding: AclBinding) -> bool:
    """Return whether there is an entry with all values of `binding`."""
    of_requester = image.acls_by_resource.of_requester(binding.resource_name, binding.principal, binding.host)
    return any(AclBinding.of(each) == binding for each in of_requester)
