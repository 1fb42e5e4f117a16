"""CreateAcls (key 30), versions 1-3: entries of the access control lists."""

from __future__ import annotations

from tidelog.base.randomness import Randomness
from tidelog.broker.api.handlers.acl_administration import check_security
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.acls import AclBinding
from tidelog.cluster.controller.acls import create_acls
from tidelog.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


class CreateAclsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, config: BrokerConfig, randomness: Randomness) -> None:
        self._store = store
        self._config = config
        self._randomness = randomness

    async def handle(self, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
        """Return the outcome of each entry when the entries are durable. Errors: SECURITY_DISABLED."""
        check_security(self._config)
        bindings = [
            AclBinding(
                each.resource_type,
                each.resource_name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in request.creations
        ]
        outcomes = await self._store.submit(lambda image: create_acls(image, bindings, self._randomness))
        return CreateAclsResponse(
            results=tuple(
                AclCreationResult(error_code=outcome.code, error_message=outcome.text) for outcome in outcomes
            )
        )
