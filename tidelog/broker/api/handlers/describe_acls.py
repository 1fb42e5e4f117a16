"""DescribeAcls (key 29), versions 1-3: the access control entries that a filter selects."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.api.handlers.acl_administration import check_security
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.acls import AclFilter, check_filter, matching_acls
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tidelog.protocol.steps import Steps


class DescribeAclsHandler:
    """Returns access control entries of the image."""

    def __init__(self, image: Callable[[], MetadataImage], config: BrokerConfig) -> None:
        self._image = image
        self._config = config

    def handle(self, context: RequestContext, request: DescribeAclsRequest) -> Steps[DescribeAclsResponse]:
        """Return the selected entries by resource. Raise SECURITY_DISABLED, INVALID_REQUEST."""
        check_security(self._config)
        filter_by = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        check_filter(filter_by)
        by_resource: dict[tuple[int, str, int], list[AclDescription]] = {}
        for record in (yield from matching_acls(self._image(), filter_by)):
            yield None
            resource = (record.resource_type, record.resource_name, record.pattern_type)
            by_resource.setdefault(resource, []).append(
                AclDescription(
                    principal=record.principal,
                    host=record.host,
                    operation=record.operation,
                    permission_type=record.permission_type,
                )
            )
        return DescribeAclsResponse(
            error_message=None,
            resources=tuple(
                DescribeAclsResource(
                    resource_type=kind, resource_name=name, pattern_type=pattern, acls=tuple(entries)
                )
                for (kind, name, pattern), entries in by_resource.items()
            ),
        )
