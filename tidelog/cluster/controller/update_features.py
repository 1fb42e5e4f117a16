"""UpdateFeatures: changes all feature levels of a request, or none.

This controller, every registered broker and every controller of the quorum must support a level.
`metadata.version` can be downgraded only if no record format changes between the levels. `kraft.version` can
only be upgraded, by records of the quorum itself; the NoOpRecord here is written after them, so that the
request waits for their commit.

Source: KIP-584, KIP-778, KIP-1022; FeatureControlManager and MetadataVersion of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Final

from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from tidelog.cluster.image import FeatureRange, MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.protocol.metadata_records.clear_elr_record import ClearElrRecord
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord
from tidelog.protocol.schema import MetadataRecord

_DISABLED: Final = FeatureRange(0, 0)
_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

# Levels of metadata.version in which the format of some record changed.
LEVELS_WITH_CHANGED_RECORDS: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})

# feature and level -> feature and level that it requires.
_DEPENDENCIES: Final[Mapping[tuple[str, int], tuple[str, int]]] = {
    (ELIGIBLE_LEADER_REPLICAS_VERSION, 1): (METADATA_VERSION, 23),
}


class UpgradeType(IntEnum):
    """The allowed direction of a change; the numbers of UpdateFeatures requests."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage, settings: ControllerSettings, request: UpdateFeaturesRequest, kraft_version: int = 0
) -> ControllerResult[bool]:
    """Change feature levels; a `validate_only` request changes nothing.

    `kraft_version` is the level of the quorum. The reply is whether the caller must upgrade the voters to
    dynamic ones. Errors: KafkaError INVALID_UPDATE_VERSION for the first feature that cannot be changed.
    """
    current = {**image.features, KRAFT_VERSION: kraft_version}
    # One pass: a request may have many thousand updates, all but a few of features that do not exist.
    updates = {update.feature: update for update in request.feature_updates}

    def proposed_level(feature: str) -> int:
        update = updates.get(feature)
        return current.get(feature, 0) if update is None else update.max_version_level

    records: list[MetadataRecord] = []
    for update in updates.values():
        records += _records(image, settings, update, current.get(update.feature, 0), proposed_level)
    upgrades_voters = proposed_level(KRAFT_VERSION) > kraft_version
    return ControllerResult(() if request.validate_only else tuple(records), upgrades_voters)


def _records(
    image: MetadataImage,
    settings: ControllerSettings,
    update: FeatureUpdateKey,
    current: int,
    proposed_level: Callable[[str], int],
) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    _check_direction(update, current)
    reason = next(_unsupported_reasons(image, name, level), None)
    if reason is not None:
        raise _invalid_update(update, reason)
    if name == KRAFT_VERSION:
        if level < current:
            raise _invalid_update(update, "dynamic voters cannot become static again")
        return [NoOpRecord()] if level > current else []
    if name == METADATA_VERSION:
        _check_metadata_version(update, current)
    dependency = _DEPENDENCIES.get((name, level))
    if dependency is not None and proposed_level(dependency[0]) < dependency[1]:
        raise _invalid_update(update, f"the level requires {dependency[0]} of at least {dependency[1]}")
    records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=level)]
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0 and current == 0:
        # While the feature was off, the eligible leader replicas were not maintained.
        records += [ClearElrRecord(), *_min_insync_replicas_records(image, settings)]
    return records


def _check_direction(update: FeatureUpdateKey, current: int) -> None:
    level, upgrade_type = update.max_version_level, update.upgrade_type
    if upgrade_type not in tuple(UpgradeType):
        raise _invalid_update(update, f"there is no upgrade type {upgrade_type}")
    if level < 0:
        raise _invalid_update(update, "a level must be at least 0")
    allows_downgrade = upgrade_type != UpgradeType.UPGRADE or update.allow_downgrade
    if level < current and not allows_downgrade:
        raise _invalid_update(update, f"the level is {current}, only a downgrade can lower it")
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid_update(update, f"the level is {current}, a downgrade cannot raise it")


def _check_metadata_version(update: FeatureUpdateKey, current: int) -> None:
    level = update.max_version_level
    if not any(level < each <= current for each in LEVELS_WITH_CHANGED_RECORDS):
        return
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        raise _invalid_update(update, "unsafe downgrades of the metadata are not supported")
    raise _invalid_update(update, "metadata could be lost, the format of records differs between the levels")


def _unsupported_reasons(image: MetadataImage, name: str, level: int) -> Iterator[str]:
    """Yield one reason for each node that does not support a level; level 0 is always supported."""
    if name not in SUPPORTED_FEATURES:
        yield "this controller does not know the feature"
        return
    own = SUPPORTED_FEATURES[name]
    if level and not own.lowest <= level <= own.highest:
        yield f"this controller supports {own.lowest} to {own.highest}"
    for broker in image.brokers.values():
        supported = broker.features.get(name, _DISABLED)
        if level and not supported.lowest <= level <= supported.highest:
            yield f"broker {broker.id} supports {supported.lowest} to {supported.highest}"
    for controller in image.controllers.values():
        ranges = {each.name: each for each in controller.features}
        feature = ranges.get(name)
        lowest, highest = (
            _DISABLED if feature is None else (feature.min_supported_version, feature.max_supported_version)
        )
        if level and not lowest <= level <= highest:
            yield f"controller {controller.controller_id} supports {lowest} to {highest}"


def _min_insync_replicas_records(
    image: MetadataImage, settings: ControllerSettings
) -> Iterator[ConfigRecord]:
    """Yield the records that set one min.insync.replicas for all brokers, as ELR requires."""
    if _MIN_INSYNC_REPLICAS not in image.cluster_configs():
        value = settings.static_configs.get(_MIN_INSYNC_REPLICAS, "1")
        yield _min_insync_replicas_record("", value)
    for (kind, broker), configs in image.configs.items():
        if kind == ResourceType.BROKER and broker and _MIN_INSYNC_REPLICAS in configs:
            yield _min_insync_replicas_record(broker, None)


def _min_insync_replicas_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name=broker, name=_MIN_INSYNC_REPLICAS, value=value
    )


def _invalid_update(update: FeatureUpdateKey, reason: str) -> KafkaError:
    text = f"Invalid update version {update.max_version_level} for feature {update.feature}: {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)
