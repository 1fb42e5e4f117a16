"""AlterConfigs and IncrementalAlterConfigs on the controller: submit the changes as one command."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Generic

from tidelog.broker.api.handlers.config_alteration import ConfigApi, Request, Response, change_loggers_of
from tidelog.broker.api.handlers.config_changes import check_submission, merge_outcomes, without_outcome
from tidelog.broker.api.handlers.logger_changes import LoggerChanges
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.config_access import require_config_access
from tidelog.cluster.controller.result import ControllerResult, Outcome
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import ConfigResource, MetadataImage, ResourceType
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.steps import Steps


class ConfigAlterationHandler(Generic[Request, Response]):
    """Submits the changes of one of the two APIs."""

    def __init__(
        self,
        api: ConfigApi[Request, Response],
        store: MetadataStore,
        settings: ControllerSettings,
        slices: Slices,
        authorizer: Authorizer,
        loggers: LoggerChanges | None = None,
    ) -> None:
        self._authorizer = authorizer
        self._api: ConfigApi[Request, Response] = api
        self._store = store
        self._settings = settings
        self._slices = slices
        self._loggers = loggers

    async def handle(self, context: RequestContext, request: Request) -> Response:
        """Return the outcome of each resource when the changes are durable."""
        complete = self._slices.complete
        requested = await complete(self._api.changes(request))
        change_loggers = change_loggers_of(self._loggers, validate_only=request.validate_only)
        check_access = partial(self._check_access, context)
        outcomes = await complete(check_submission(requested, change_loggers, check_access))
        rest = without_outcome(requested, outcomes)

        def command(image: MetadataImage) -> Steps[ControllerResult[list[Outcome]]]:
            result = yield from self._api.submission(image, self._settings, rest)
            return replace(result, records=()) if request.validate_only else result

        submitted = await self._store.submit(command) if rest else []
        return await complete(self._api.response(request, merge_outcomes(outcomes, submitted)))

    def _check_access(self, context: RequestContext, resource: ConfigResource) -> None:
        """Raise KafkaError if the client may not alter a resource; loggers require CLUSTER_ACTION here."""
        is_logger = resource[0] == ResourceType.BROKER_LOGGER
        operation = AclOperation.CLUSTER_ACTION if is_logger else AclOperation.ALTER_CONFIGS
        require_config_access(self._authorizer, context, operation, resource)
