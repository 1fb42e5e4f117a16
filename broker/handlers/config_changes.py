"""What AlterConfigs and IncrementalAlterConfigs share: checks of a request before the controller's.

A resource that fails here is answered and goes no further; the others are submitted.

Source: ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from broker.config import BrokerConfig
from broker.dynamic_configs import check_broker_change
from cluster.controller.configs import ConfigOperation, ResourceChange
from cluster.controller.result import SUCCESS, ControllerResult, Outcome
from cluster.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode, KafkaError

Resulting = Callable[[MetadataImage, ResourceChange], dict[str, str]]
"""All configs that a resource would have after a change."""


def check_request(
    config: BrokerConfig,
    image: MetadataImage,
    requested: Sequence[ResourceChange],
    resulting: Resulting,
) -> list[Outcome]:
    """The outcome of each resource as far as this broker can tell; success means "ask the controller"."""
    counts = Counter(change.resource for change in requested)
    outcomes = []
    for change in requested:
        try:
            if counts[change.resource] > 1:
                raise _refused(f"a resource may be in the request once, not {counts[change.resource]} times")
            _check(config, image, change, resulting)
            outcomes.append(SUCCESS)
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
    return outcomes


def _check(config: BrokerConfig, image: MetadataImage, change: ResourceChange, resulting: Resulting) -> None:
    keys = Counter(each.key for each in change.changes)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise _refused(f"{', '.join(repeated)}: a key may be changed once")
    empty = [
        each.key for each in change.changes if each.value is None and each.operation != ConfigOperation.DELETE
    ]
    if empty:
        raise _refused(f"{', '.join(empty)}: a value of null is not allowed")
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
    """INVALID_REQUEST unless `name` is this broker or, being empty, all brokers."""
    if name and name != str(config.node_id):
        raise _refused(f"broker {name!r}: this is broker {config.node_id}, and only it can be asked for")


def merged(
    outcomes: Sequence[Outcome], result: ControllerResult[list[Outcome]], *, validate_only: bool
) -> ControllerResult[list[Outcome]]:
    """The outcomes of this broker, and the controller's where this broker had nothing to say."""
    rest = iter(result.reply)
    together = [outcome if outcome.code else next(rest) for outcome in outcomes]
    return ControllerResult(() if validate_only else result.records, together)


def passed(requested: Sequence[ResourceChange], outcomes: Sequence[Outcome]) -> list[ResourceChange]:
    """The changes that go on to the controller."""
    return [change for change, outcome in zip(requested, outcomes, strict=True) if not outcome.code]


def _refused(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
