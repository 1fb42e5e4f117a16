"""AlterConfigs and IncrementalAlterConfigs: the common path of their requests.

The broker that gets the request checks what only a broker can check, and forwards the rest to the
controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.broker.api.handlers.config_changes import (
    ChangeLoggers,
    ConfigsAfterChange,
    Resource,
    check_request,
    merge_outcomes,
    outcomes_of_responses,
    without_outcome,
)
from tidelog.broker.api.handlers.logger_changes import LoggerChanges
from tidelog.broker.config.dynamic_checks import changed_broker_config
from tidelog.broker.config.dynamic_keys import LISTENER_SECURITY_KEYS, listener_and_base
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.config_access import require_config_access
from tidelog.cluster.controller.configs import ResourceChange
from tidelog.cluster.controller.result import ControllerResult, Outcome
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import alter_configs, incremental_alter_configs
from tidelog.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.steps import Steps

Request = TypeVar("Request", AlterConfigsRequest, IncrementalAlterConfigsRequest)
Response = TypeVar("Response", AlterConfigsResponse, IncrementalAlterConfigsResponse)
ResourceResponse = TypeVar(
    "ResourceResponse",
    alter_configs.AlterConfigsResourceResponse,
    incremental_alter_configs.AlterConfigsResourceResponse,
)

Submission: TypeAlias = Callable[
    [MetadataImage, ControllerSettings, Sequence[ResourceChange]], Steps[ControllerResult[list[Outcome]]]
]
"""The command of the controller."""

CertificateCheck: TypeAlias = Callable[[BrokerConfig], Awaitable[None]]
"""Raises ConfigError if the listeners could not use their certificates with a configuration."""


@dataclass(frozen=True, slots=True)
class ConfigApi(Generic[Request, Response]):
    """The differences between the two APIs."""

    changes: Callable[[Request], Steps[tuple[ResourceChange, ...]]]
    submission: Submission
    configs_after_change: ConfigsAfterChange
    response: Callable[[Request, Sequence[Outcome]], Steps[Response]]


def resource_responses(
    kind: type[ResourceResponse], resources: Iterable[Resource], outcomes: Sequence[Outcome]
) -> Steps[tuple[ResourceResponse, ...]]:
    """Return the outcome of each resource, in the form of one of the APIs."""
    responses = []
    for resource, outcome in zip(resources, outcomes, strict=True):
        responses.append(
            kind(
                error_code=outcome.code,
                error_message=outcome.text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
        yield None
    return tuple(responses)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChecks:
    """The checks of a broker before it forwards changes; `loggers` is None for an API without loggers."""

    loggers: LoggerChanges | None = None
    check_certificates: CertificateCheck | None = None
    authorizer: Authorizer


class ConfigAlterationForwarder(Generic[Request, Response]):
    """The part of the broker that gets the request; `forward` sends the rest to the active controller."""

    def __init__(
        self,
        api: ConfigApi[Request, Response],
        image: Callable[[], MetadataImage],
        config: BrokerConfig,
        forward: Callable[[RequestContext, Request], Awaitable[Response]],
        slices: Slices,
        checks: BrokerChecks,
    ) -> None:
        self._checks = checks
        self._api: ConfigApi[Request, Response] = api
        self._image = image
        self._config = config
        self._forward: Callable[[RequestContext, Request], Awaitable[Response]] = forward
        self._slices = slices

    async def handle(self, context: RequestContext, request: Request) -> Response:
        """Return this broker's errors, and the controller's results for the other resources."""
        complete = self._slices.complete
        requested = await complete(self._api.changes(request))
        outcomes = await complete(self._check(context, request, requested))
        if self._checks.check_certificates is not None:
            for index in await complete(_changes_of_stores(requested, outcomes)):
                outcomes[index] = await self._check_stores(requested[index], self._checks.check_certificates)
        rest = without_outcome(request.resources, outcomes)
        forwarded: list[Outcome] = []
        if rest:
            response = await self._forward(context, replace(request, resources=tuple(rest)))
            forwarded = await complete(outcomes_of_responses(rest, response.responses))
        return await complete(self._api.response(request, merge_outcomes(outcomes, forwarded)))

    async def _check_stores(
        self, change: ResourceChange, check_certificates: CertificateCheck
    ) -> Outcome | None:
        """Return the error if a listener could not use its changed stores; None if all can."""
        image = self._image()
        configs = await self._slices.complete(self._api.configs_after_change(image, change))
        try:
            await check_certificates(changed_broker_config(self._config, image, change.resource[1], configs))
        except ConfigError as error:
            return Outcome(ErrorCode.INVALID_REQUEST, str(error))
        return None

    def _check(
        self, context: RequestContext, request: Request, requested: Sequence[ResourceChange]
    ) -> Steps[list[Outcome | None]]:
        check_access = partial(
            require_config_access, self._checks.authorizer, context, AclOperation.ALTER_CONFIGS
        )
        change_loggers = change_loggers_of(self._checks.loggers, validate_only=request.validate_only)
        return check_request(
            self._config,
            self._image(),
            requested,
            self._api.configs_after_change,
            change_loggers,
            check_access,
        )


def _changes_of_stores(
    requested: Sequence[ResourceChange], outcomes: Sequence[Outcome | None]
) -> Steps[list[int]]:
    """Return the indexes of the changes without an outcome that change the stores of a listener."""
    indexes = []
    for index, change in enumerate(requested):
        if outcomes[index] is None and change.resource[0] == ResourceType.BROKER:
            keys = (listener_and_base(each.key).base for each in change.changes)
            if any(key in LISTENER_SECURITY_KEYS for key in keys):
                indexes.append(index)
        yield None
    return indexes


def change_loggers_of(loggers: LoggerChanges | None, *, validate_only: bool) -> ChangeLoggers | None:
    """Return the function that changes loggers; None if the API has none."""
    return None if loggers is None else partial(loggers.outcome, validate_only=validate_only)
