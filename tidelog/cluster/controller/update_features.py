"""The cluster agrees on other feature levels: all that a request names change, or none does.

A level must be one that this controller, every registered broker and every controller of the quorum
can work at. `metadata.version` goes down only where no record format changes between the levels.
`kraft.version` goes up only, and by the quorum's own records: there is just something to wait for, which is
written behind them.

Source: KIP-584, KIP-778, KIP-1022; FeatureControlManager and MetadataVersion of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import (
    COMPATIBLE_FEATURES,
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

# Levels of metadata.version in which the form of some record changed.
_RECORDS_CHANGED: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})

# feature and level -> feature and level that it needs.
_NEEDS: Final[Mapping[tuple[str, int], tuple[str, int]]] = {
    (ELIGIBLE_LEADER_REPLICAS_VERSION, 1): (METADATA_VERSION, 23),
}


class UpgradeType(IntEnum):
    """Which way a level may go; the numbers of UpdateFeatures requests."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage, settings: ControllerSettings, request: UpdateFeaturesRequest, kraft_version: int = 0
) -> ControllerResult[bool]:
    """Change feature levels; nothing is changed for `validate_only`.

    `kraft_version` is the level of the quorum. The reply contains whether its voters must become dynamic,
    which the caller has to do. Errors: KafkaError INVALID_UPDATE_VERSION for the first feature that cannot
    change.
    """
    levels = {update.feature: update.max_version_level for update in request.feature_updates}
    current = {**image.features, KRAFT_VERSION: kraft_version}
    proposed = {**current, **levels}
    records: list[MetadataRecord] = []
    for update in {each.feature: each for each in request.feature_updates}.values():
        records += _records(image, settings, update, current.get(update.feature, 0), proposed)
    upgrades_voters = proposed[KRAFT_VERSION] > kraft_version
    return ControllerResult(() if request.validate_only else tuple(records), upgrades_voters)


def _records(
    image: MetadataImage,
    settings: ControllerSettings,
    update: FeatureUpdateKey,
    current: int,
    proposed: Mapping[str, int],
) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    _check_direction(update, current)
    reason = next(_unable(image, name, level), None)
    if reason is not None:
        raise _refused(update, reason)
    if name == KRAFT_VERSION:
        if level < current:
            raise _refused(update, "voters in the log cannot become static again")
        return [NoOpRecord()] if level > current else []
    if name == METADATA_VERSION:
        _check_metadata_version(update, current)
    need = _NEEDS.get((name, level))
    if need is not None and proposed.get(need[0], 0) < need[1]:
        raise _refused(update, f"it needs {need[0]} of at least {need[1]}")
    records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=level)]
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0 and current == 0:
        # While the feature was off, the eligible leader replicas were not maintained.
        records += [ClearElrRecord(), *_one_min_insync_replicas(image, settings)]
    return records


def _check_direction(update: FeatureUpdateKey, current: int) -> None:
    level, upgrade_type = update.max_version_level, update.upgrade_type
    if upgrade_type not in tuple(UpgradeType):
        raise _refused(update, f"there is no upgrade type {upgrade_type}")
    if level < 0:
        raise _refused(update, "a level is at least 0")
    may_go_down = upgrade_type != UpgradeType.UPGRADE or update.allow_downgrade
    if level < current and not may_go_down:
        raise _refused(update, f"the level is {current}, and only a downgrade makes it less")
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        raise _refused(update, f"the level is {current}, and a downgrade cannot make it more")


def _check_metadata_version(update: FeatureUpdateKey, current: int) -> None:
    level = update.max_version_level
    changed = [each for each in _RECORDS_CHANGED if level < each <= current]
    if not changed:
        return
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        raise _refused(update, "unsafe downgrades of the metadata are not supported")
    raise _refused(update, "a downgrade from here could lose metadata, whose form has changed since")


def _unable(image: MetadataImage, name: str, level: int) -> Iterator[str]:
    """Yield why the cluster cannot work at a level: one reason for each node that cannot.

    Level 0 is always possible, also for a feature that this software only is compatible with.
    """
    if name not in COMPATIBLE_FEATURES:
        yield "this controller does not know the feature"
        return
    own = SUPPORTED_FEATURES.get(name, _DISABLED)
    if level and not own.lowest <= level <= own.highest:
        yield f"this controller works at {own.lowest} to {own.highest}"
    for broker in image.brokers.values():
        supported = broker.features.get(name, _DISABLED)
        if level and not supported.lowest <= level <= supported.highest:
            yield f"broker {broker.id} works at {supported.lowest} to {supported.highest}"
    for controller in image.controllers.values():
        ranges = {each.name: each for each in controller.features}
        found = ranges.get(name)
        lowest, highest = (
            _DISABLED if found is None else (found.min_supported_version, found.max_supported_version)
        )
        if level and not lowest <= level <= highest:
            yield f"controller {controller.controller_id} works at {lowest} to {highest}"


def _one_min_insync_replicas(image: MetadataImage, settings: ControllerSettings) -> Iterator[ConfigRecord]:
    """Eligible leader replicas need one min.insync.replicas for all brokers."""
    if _MIN_INSYNC_REPLICAS not in image.cluster_configs():
        value = settings.static_configs.get(_MIN_INSYNC_REPLICAS, "1")
        yield _min_insync_replicas("", value)
    for (kind, broker), configs in image.configs.items():
        if kind == ResourceType.BROKER and broker and _MIN_INSYNC_REPLICAS in configs:
            yield _min_insync_replicas(broker, None)


def _min_insync_replicas(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name=broker, name=_MIN_INSYNC_REPLICAS, value=value
    )


def _refused(update: FeatureUpdateKey, reason: str) -> KafkaError:
    text = f"{update.feature} cannot become {update.max_version_level}: {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)
