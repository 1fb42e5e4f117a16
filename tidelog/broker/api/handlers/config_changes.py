"""What AlterConfigs and IncrementalAlterConfigs share: the checks of the broker that is asked.

A resource that fails here is answered and goes no further, and so are the node's own loggers; the
others go to the controller.

Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from tidelog.broker.api.handlers.config_names import check_broker_name
from tidelog.broker.config.dynamic_checks import check_broker_change
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.clients.transport.failures import known_code
from tidelog.cluster.controller.configs import ConfigOperation, ResourceChange
from tidelog.cluster.controller.result import Outcome
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


class _Answer(_Resource, Protocol):
    @property
    def error_code(self) -> int: ...

    @property
    def error_message(self) -> str | None: ...


Resulting = Callable[[MetadataImage, ResourceChange], dict[str, str]]
"""All configs that a resource would have after a change."""

ChangeLoggers = Callable[[ResourceChange], Outcome]
"""Makes the changes of a node's loggers. Errors: KafkaError."""


def check_request(
    config: BrokerConfig,
    image: MetadataImage,
    requested: Sequence[ResourceChange],
    resulting: Resulting,
    change_loggers: ChangeLoggers | None,
) -> list[Outcome | None]:
    """Return the outcome of each resource as far as this broker can tell; None means "ask the controller".

    Changes of loggers are made; no `change_loggers` means that the API has none.
    """

    def check(change: ResourceChange) -> Outcome | None:
        if change_loggers is not None and change.resource[0] == ResourceType.BROKER_LOGGER:
            return change_loggers(change)
        _check(config, image, change, resulting)
        return None

    return _outcomes(requested, check)


def check_submission(
    requested: Sequence[ResourceChange], change_loggers: ChangeLoggers | None
) -> list[Outcome | None]:
    """Return the outcomes that a controller knows from the request as it is written; None means "submit"."""

    def check(change: ResourceChange) -> Outcome | None:
        is_logger = change.resource[0] == ResourceType.BROKER_LOGGER
        return change_loggers(change) if change_loggers is not None and is_logger else None

    return _outcomes(requested, check)


def _outcomes(
    requested: Sequence[ResourceChange], check: Callable[[ResourceChange], Outcome | None]
) -> list[Outcome | None]:
    counts = Counter(change.resource for change in requested)
    outcomes: list[Outcome | None] = []
    for change in requested:
        try:
            if counts[change.resource] > 1:
                raise _refused("Each resource must appear at most once.")
            _check_keys(change)
            outcomes.append(check(change))
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
    return outcomes


def _check_keys(change: ResourceChange) -> None:
    keys = Counter(each.key for each in change.changes)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise _refused(f"Error due to duplicate config keys: {', '.join(repeated)}")
    empty = [
        each.key for each in change.changes if each.value is None and each.operation != ConfigOperation.DELETE
    ]
    if empty:
        raise _refused(f"Null value not supported for: {', '.join(empty)}")


def _check(config: BrokerConfig, image: MetadataImage, change: ResourceChange, resulting: Resulting) -> None:
    resource_type, name = change.resource
    if resource_type == ResourceType.BROKER:
        check_broker_name(config.node_id, name)
        check_broker_change(config, image, name, resulting(image, change))
    elif resource_type == ResourceType.CLIENT_METRICS:
        raise _refused("client metrics subscriptions are not served by this broker")
    elif resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
        raise _refused(f"Unknown resource type {resource_type}")


def merged(outcomes: Sequence[Outcome | None], rest: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes known before, and those of `rest` in the places of the others."""
    following = iter(rest)
    return [next(following) if outcome is None else outcome for outcome in outcomes]


def passed(requested: Sequence[T], outcomes: Sequence[Outcome | None]) -> list[T]:
    """Return the items that have no outcome yet."""
    return [each for each, outcome in zip(requested, outcomes, strict=True) if outcome is None]


def controllers_outcomes(resources: Iterable[_Resource], answers: Iterable[_Answer]) -> list[Outcome]:
    """What the controller has answered for each of `resources`."""
    by_resource = {
        (answer.resource_type, answer.resource_name): Outcome(
            known_code(answer.error_code), answer.error_message
        )
        for answer in answers
    }
    missing = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller has not answered for this resource")
    return [by_resource.get((each.resource_type, each.resource_name), missing) for each in resources]


def _refused(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
