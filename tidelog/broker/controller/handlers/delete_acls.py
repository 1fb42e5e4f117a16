"""DeleteAcls (key 31), versions 1-3: delete entries of the access control lists by filters."""

from __future__ import annotations

from tidelog.broker.api.handlers.acl_administration import check_security
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.acls import AclFilter
from tidelog.cluster.controller.acls import Removal, delete_acls
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


class DeleteAclsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, config: BrokerConfig) -> None:
        self._store = store
        self._config = config

    async def handle(self, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
        """Return the deleted entries of each filter when that is durable. Errors: SECURITY_DISABLED."""
        check_security(self._config)
        filters = [
            AclFilter(
                each.resource_type_filter,
                each.resource_name_filter,
                each.pattern_type_filter,
                each.principal_filter,
                each.host_filter,
                each.operation,
                each.permission_type,
            )
            for each in request.filters
        ]
        removals = await self._store.submit(lambda image: delete_acls(image, filters))
        return DeleteAclsResponse(filter_results=tuple(map(_result, removals)))


def _result(removal: Removal) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=removal.outcome.code,
        error_message=removal.outcome.text,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(error_message=None, **binding._asdict()) for binding in removal.removed
        ),
    )
