"""What AlterConfigs and IncrementalAlterConfigs share: the checks of the broker that is asked.

A resource that fails here is answered and goes no further; the others go to the controller.

Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from broker.config import BrokerConfig
from broker.dynamic_checks import check_broker_change
from clients.failures import known_code
from cluster.controller.configs import ConfigOperation, ResourceChange
from cluster.controller.result import SUCCESS, Outcome
from cluster.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode, KafkaError

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


def check_request(
    config: BrokerConfig,
    image: MetadataImage,
    requested: Sequence[ResourceChange],
    resulting: Resulting,
) -> list[Outcome]:
    """The outcome of each resource as far as this broker can tell; success means "ask the controller"."""
    return _outcomes(requested, lambda change: _check(config, image, change, resulting))


def check_repetitions(requested: Sequence[ResourceChange]) -> list[Outcome]:
    """What the controller refuses in a request as it is written; success means "submit"."""
    return _outcomes(requested, lambda change: None)


def _outcomes(requested: Sequence[ResourceChange], check: Callable[[ResourceChange], None]) -> list[Outcome]:
    counts = Counter(change.resource for change in requested)
    outcomes = []
    for change in requested:
        try:
            if counts[change.resource] > 1:
                raise _refused(f"a resource may be in the request once, not {counts[change.resource]} times")
            _check_keys(change)
            check(change)
            outcomes.append(SUCCESS)
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
    return outcomes


def _check_keys(change: ResourceChange) -> None:
    keys = Counter(each.key for each in change.changes)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise _refused(f"{', '.join(repeated)}: a key may be changed once")
    empty = [
        each.key for each in change.changes if each.value is None and each.operation != ConfigOperation.DELETE
    ]
    if empty:
        raise _refused(f"{', '.join(empty)}: a value of null is not allowed")


def _check(config: BrokerConfig, image: MetadataImage, change: ResourceChange, resulting: Resulting) -> None:
    resource_type, name = change.resource
    if resource_type == ResourceType.BROKER:
        check_broker_name(config, name)
        check_broker_change(config, image, name, resulting(image, change))
    elif resource_type == ResourceType.BROKER_LOGGER:
        raise _refused("loggers of this broker cannot be changed by request")
    elif resource_type == ResourceType.CLIENT_METRICS:
        raise _refused("client metrics subscriptions are not served by this broker")
    elif resource_type not in (ResourceType.TOPIC, ResourceType.GROUP):
        raise _refused(f"there is no resource type {resource_type}")


def check_broker_name(config: BrokerConfig, name: str) -> None:
    """Check that `name` is this broker or, being empty, all brokers. Errors: INVALID_REQUEST."""
    if name:
        check_own_id(config, name, f"{config.node_id} or empty string")


def check_own_id(config: BrokerConfig, name: str, expected: str) -> None:
    """Check that `name` is the id of this broker. Errors: INVALID_REQUEST, which names what is `expected`."""
    if not (name.isascii() and name.isdecimal()):
        raise _refused(f"Broker id must be an integer, but it is: {name}")
    if name != str(config.node_id):
        raise _refused(f"Unexpected broker id, expected {expected}, but received {name}")


def merged(outcomes: Sequence[Outcome], rest: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes known before, and those of `rest` where there was nothing to say."""
    following = iter(rest)
    return [outcome if outcome.code else next(following) for outcome in outcomes]


def passed(requested: Sequence[T], outcomes: Sequence[Outcome]) -> list[T]:
    """Those of the items that go further."""
    return [each for each, outcome in zip(requested, outcomes, strict=True) if not outcome.code]


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
