"""Admin calls about client quotas and access control entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none
from tidelog.clients.transport.failures import failure, raise_for
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages import alter_client_quotas, describe_client_quotas
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of their types: client-id, ip, user; name None is the default entity."""


class QuotaMatch(IntEnum):
    """How a filter matches the entities of one type."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaComponent(NamedTuple):
    """The filter for one entity type; `name` is for an exact match."""

    entity_type: str
    match: QuotaMatch = QuotaMatch.ANY
    name: str | None = None


class AclBinding(NamedTuple):
    """One access control entry."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: PermissionType = PermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """A filter of access control entries; the defaults match all entries."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


EVERY_ENTRY: Final = AclFilter()
"""The filter that matches all entries."""


class SecurityAdmin:
    """Client quotas and access control entries."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe_client_quotas(
        self,
        components: Iterable[QuotaComponent] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match all `components`."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = describe_client_quotas.DescribeClientQuotasRequest(
            components=tuple(
                describe_client_quotas.ComponentData(
                    entity_type=component.entity_type, match_type=component.match, match=component.name
                )
                for component in components
            ),
            strict=strict,
        )
        response = await self._requests.send(
            request, describe_client_quotas.DescribeClientQuotasResponse, deadline_ms
        )
        raise_for(response.error_code, "describe client quotas", response.error_message)
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas, and remove those whose value is None; None for each entity that was changed."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = alter_client_quotas.AlterClientQuotasRequest(
            entries=tuple(_quota_entry(entity, changes) for entity, changes in quotas.items()),
            validate_only=validate_only,
        )
        response = await self._requests.send_to_controller(
            request,
            alter_client_quotas.AlterClientQuotasResponse,
            deadline_ms,
        )
        results: dict[QuotaEntity, KafkaError | None] = {}
        for entry in response.entries:
            entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
            results[entity] = error_or_none(
                entry.error_code, f"quotas of {dict(entity)}", entry.error_message
            )
        return results

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> dict[AclBinding, KafkaError | None]:
        """Create access control entries; None for each that was created."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        acl_bindings = tuple(bindings)
        request = CreateAclsRequest(
            creations=tuple(
                AclCreation(
                    resource_type=binding.resource_type,
                    resource_name=binding.resource_name,
                    resource_pattern_type=binding.pattern_type,
                    principal=binding.principal,
                    host=binding.host,
                    operation=binding.operation,
                    permission_type=binding.permission,
                )
                for binding in acl_bindings
            )
        )
        response = await self._requests.send_to_controller(request, CreateAclsResponse, deadline_ms)
        return {
            binding: error_or_none(
                result.error_code, f"entry for {binding.resource_name!r}", result.error_message
            )
            for binding, result in zip(acl_bindings, response.results, strict=True)
        }

    async def describe_acls(
        self,
        acl_filter: AclFilter = EVERY_ENTRY,
        *,
        timeout_ms: int | None = None,
    ) -> list[AclBinding]:
        """Return the access control entries that match the filter."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = DescribeAclsRequest(**_filter_fields(acl_filter))
        response = await self._requests.send(request, DescribeAclsResponse, deadline_ms)
        raise_for(response.error_code, "describe access control entries", response.error_message)
        return [_binding(resource, entry) for resource in response.resources for entry in resource.acls]

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
    ) -> dict[AclFilter, list[AclBinding] | KafkaError]:
        """Delete the access control entries that match; return the deleted entries of each filter."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        acl_filters = tuple(filters)
        request = DeleteAclsRequest(
            filters=tuple(DeleteAclsFilter(**_filter_fields(acl_filter)) for acl_filter in acl_filters)
        )
        response = await self._requests.send_to_controller(request, DeleteAclsResponse, deadline_ms)
        return {
            acl_filter: _deleted(result)
            for acl_filter, result in zip(acl_filters, response.filter_results, strict=True)
        }


def _quota_entry(
    entity: QuotaEntity, changes: Mapping[str, float | None]
) -> alter_client_quotas.RequestEntryData:
    return alter_client_quotas.RequestEntryData(
        entity=tuple(
            alter_client_quotas.RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ),
        ops=tuple(
            alter_client_quotas.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in changes.items()
        ),
    )


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple((kind, names[kind]) for kind in sorted(names))


def _deleted(result: DeleteAclsFilterResult) -> list[AclBinding] | KafkaError:
    if result.error_code != ErrorCode.NONE:
        return failure(result.error_code, "delete access control entries", result.error_message)
    return [_binding(acl, acl) for acl in result.matching_acls]


def _filter_fields(acl_filter: AclFilter) -> dict[str, Any]:
    """Return the filter as fields of DescribeAcls and DeleteAcls requests."""
    return {
        "resource_type_filter": acl_filter.resource_type,
        "resource_name_filter": acl_filter.resource_name,
        "pattern_type_filter": acl_filter.pattern_type,
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": acl_filter.operation,
        "permission_type": acl_filter.permission,
    }


def _binding(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl, entry: AclDescription | DeleteAclsMatchingAcl
) -> AclBinding:
    return AclBinding(
        AclResourceType(resource.resource_type),
        resource.resource_name,
        entry.principal,
        AclOperation(entry.operation),
        PermissionType(entry.permission_type),
        entry.host,
        PatternType(resource.pattern_type),
    )
