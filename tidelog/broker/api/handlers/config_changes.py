"""The checks of AlterConfigs and IncrementalAlterConfigs in the broker that gets the request.

A resource that fails a check gets its error here, and changes of the node's own loggers are made here. The
other resources are forwarded to the controller.

Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from tidelog.broker.api.handlers.config_names import check_broker_name
from tidelog.broker.config.dynamic_checks import check_broker_change
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.clients.transport.failures import known_code
from tidelog.cluster.controller.configs import ConfigOperation, ResourceChange
from tidelog.cluster.controller.result import Outcome
from tidelog.cluster.image import ConfigResource, MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages import alter_configs, incremental_alter_configs
from tidelog.protocol.steps import Steps

T = TypeVar("T")


Resource: TypeAlias = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
ResourceResponse: TypeAlias = (
    alter_configs.AlterConfigsResourceResponse | incremental_alter_configs.AlterConfigsResourceResponse
)

ConfigsAfterChange = Callable[[MetadataImage, ResourceChange], Steps[dict[str, str]]]
"""Returns all configs that a resource would have after a change."""

ChangeLoggers = Callable[[ResourceChange], Outcome]
"""Makes the changes of a node's loggers. Errors: KafkaError."""

CheckAccess = Callable[[ConfigResource], None]
"""Raises KafkaError for a resource that the client may not alter."""


def check_request(
    config: BrokerConfig,
    image: MetadataImage,
    requested: Sequence[ResourceChange],
    configs_after_change: ConfigsAfterChange,
    change_loggers: ChangeLoggers | None,
    check_access: CheckAccess,
) -> Steps[list[Outcome | None]]:
    """Return the outcomes that this broker can determine; None for resources to forward to the controller.

    Changes of loggers are made. `change_loggers` is None if the API has none.
    """

    def check(change: ResourceChange) -> Steps[Outcome | None]:
        check_access(change.resource)
        if change_loggers is not None and change.resource[0] == ResourceType.BROKER_LOGGER:
            return change_loggers(change)
        yield from _check(config, image, change, configs_after_change)
        return None

    return (yield from _outcomes(requested, check))


def check_submission(
    requested: Sequence[ResourceChange],
    change_loggers: ChangeLoggers | None,
    check_access: CheckAccess,
) -> Steps[list[Outcome | None]]:
    """Return the outcomes that a controller determines before the command; None for the other resources."""

    def check(change: ResourceChange) -> Steps[Outcome | None]:
        yield None
        check_access(change.resource)
        is_logger = change.resource[0] == ResourceType.BROKER_LOGGER
        return change_loggers(change) if change_loggers is not None and is_logger else None

    return (yield from _outcomes(requested, check))


def _outcomes(
    requested: Sequence[ResourceChange], check: Callable[[ResourceChange], Steps[Outcome | None]]
) -> Steps[list[Outcome | None]]:
    counts: Counter[ConfigResource] = Counter()
    for change in requested:
        counts[change.resource] += 1
        yield None
    outcomes: list[Outcome | None] = []
    for change in requested:
        yield None
        try:
            if counts[change.resource] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            yield from _check_keys(change)
            outcomes.append((yield from check(change)))
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
    return outcomes


def _check_keys(change: ResourceChange) -> Steps[None]:
    keys: set[str] = set()
    repeated: dict[str, None] = {}
    empty = []
    for each in change.changes:
        if each.key in keys:
            repeated[each.key] = None
        keys.add(each.key)
        if each.value is None and each.operation != ConfigOperation.DELETE:
            empty.append(each.key)
        yield None
    if repeated:
        raise _invalid_request(f"Error due to duplicate config keys: {', '.join(repeated)}")
    if empty:
        raise _invalid_request(f"Null value not supported for: {', '.join(empty)}")


def _check(
    config: BrokerConfig,
    image: MetadataImage,
    change: ResourceChange,
    configs_after_change: ConfigsAfterChange,
) -> Steps[None]:
    resource_type, name = change.resource
    if resource_type == ResourceType.BROKER:
        check_broker_name(config.node_id, name)
        check_broker_change(config, image, name, (yield from configs_after_change(image, change)))
    elif resource_type not in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        raise _invalid_request(f"Unknown resource type {resource_type}")


def merge_outcomes(outcomes: Sequence[Outcome | None], rest: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes with those of `rest` in place of the Nones."""
    remaining = iter(rest)
    return [next(remaining) if outcome is None else outcome for outcome in outcomes]


def without_outcome(requested: Sequence[T], outcomes: Sequence[Outcome | None]) -> list[T]:
    """Return the items without an outcome."""
    return [each for each, outcome in zip(requested, outcomes, strict=True) if outcome is None]


def outcomes_of_responses(
    resources: Iterable[Resource], responses: Iterable[ResourceResponse]
) -> Steps[list[Outcome]]:
    """Return the controller's outcome for each of `resources`."""
    by_resource: dict[ConfigResource, Outcome] = {}
    for response in responses:
        outcome = Outcome(known_code(response.error_code), response.error_message)
        by_resource[response.resource_type, response.resource_name] = outcome
        yield None
    missing = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller's response does not have this resource")
    outcomes = []
    for each in resources:
        outcomes.append(by_resource.get((each.resource_type, each.resource_name), missing))
        yield None
    return outcomes


def _invalid_request(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
