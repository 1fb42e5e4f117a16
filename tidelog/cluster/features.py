"""Feature levels: those that this software supports or accepts, and those that the cluster has finalized.

Clients read the finalized levels from ApiVersions and choose their protocols accordingly. A new cluster
has the levels of Kafka 4.3 for the supported features; metadata.version 30 is 4.3-IV0.

Source: MetadataVersion and Feature of Apache Kafka 4.3.1, and the records of its storage tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.cluster.image import FeatureRange, MetadataImage

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

METADATA_VERSION_3_4: Final = 8
METADATA_VERSION_3_6_IV1: Final = 13
METADATA_VERSION_3_7_IV2: Final = 17
METADATA_VERSION_4_0_IV1: Final = 23
METADATA_VERSION_4_3: Final = 30

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {
    METADATA_VERSION: FeatureRange(7, METADATA_VERSION_4_3),
    KRAFT_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    GROUP_VERSION: FeatureRange(0, 1),
    SHARE_VERSION: FeatureRange(0, 1),
    STREAMS_VERSION: FeatureRange(0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
}
"""The supported levels: shown to clients, the limits of UpdateFeatures, and those that nodes register.

A feature without a supported level is absent, as in Kafka.
"""

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = {
    METADATA_VERSION: METADATA_VERSION_4_3,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""The initial levels of a new cluster, in the order of its first records."""


class FinalizedFeatures(NamedTuple):
    """The finalized levels as of `epoch`, an offset of the metadata log; -1 if there are none."""

    levels: Mapping[str, int]
    epoch: int


def finalized_features(image: MetadataImage, kraft_version: int = 0) -> FinalizedFeatures:
    """Return the cluster's finalized levels for ApiVersions, if this software supports them.

    An unsupported level, finalized by a controller of Apache Kafka, is omitted: a client must not use
    it. `kraft_version` is included only above 0.
    """
    levels = {**image.features, KRAFT_VERSION: kraft_version} if kraft_version else image.features
    supported = {name: level for name, level in levels.items() if _is_supported(name, level)}
    return FinalizedFeatures(supported, image.offset if image.features else -1)


def _is_supported(name: str, level: int) -> bool:
    supported = SUPPORTED_FEATURES.get(name)
    return supported is not None and supported.lowest <= level <= supported.highest


def metadata_version(image: MetadataImage) -> int:
    """Return the finalized level; the newest one for a cluster that has no records yet."""
    return image.features.get(METADATA_VERSION, METADATA_VERSION_4_3)


def supports_directories(image: MetadataImage) -> bool:
    """Return whether the metadata has the log directories of brokers and replicas (KIP-858)."""
    return metadata_version(image) >= METADATA_VERSION_3_7_IV2


def supports_cordoned_directories(image: MetadataImage) -> bool:
    """Return whether the metadata has the cordoned log directories of brokers (KIP-1066)."""
    return metadata_version(image) >= METADATA_VERSION_4_3


def eligible_leader_replicas_enabled(image: MetadataImage) -> bool:
    """Return whether the cluster tracks eligible leader replicas (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def consumer_groups_enabled(image: MetadataImage) -> bool:
    """Return whether members may use the protocol of consumer groups (KIP-848)."""
    return image.features.get(GROUP_VERSION, 0) > 0


def share_groups_enabled(image: MetadataImage) -> bool:
    """Return whether members may use the protocol of share groups (KIP-932)."""
    return image.features.get(SHARE_VERSION, 0) > 0


def streams_groups_enabled(image: MetadataImage) -> bool:
    """Return whether members may use the protocol of streams groups (KIP-1071)."""
    return image.features.get(STREAMS_VERSION, 0) > 0
