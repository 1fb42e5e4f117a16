"""Feature levels: what this software can work at, and what the cluster has agreed on.

Clients read the finalized levels from ApiVersions and choose protocols by them. A new cluster
starts at the levels of Kafka 4.3; metadata.version 30 is 4.3-IV0.

Source: MetadataVersion and Feature of Apache Kafka 4.3.1, and the records of its storage tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.image import FeatureRange, MetadataImage

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

METADATA_VERSION_4_3: Final = 30

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {
    METADATA_VERSION: FeatureRange(7, METADATA_VERSION_4_3),
    KRAFT_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    "group.version": FeatureRange(0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
}

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = {
    METADATA_VERSION: METADATA_VERSION_4_3,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    TRANSACTION_VERSION: 2,
}
"""What a new cluster starts at, in the order in which its first records stand."""


class FinalizedFeatures(NamedTuple):
    """The agreed levels as of `epoch`, an offset of the metadata log; -1 when there are none."""

    levels: Mapping[str, int]
    epoch: int


def finalized_features(image: MetadataImage, kraft_version: int = 0) -> FinalizedFeatures:
    """What ApiVersions tells clients of the cluster's levels; of `kraft_version` only above 0."""
    levels = {**image.features, KRAFT_VERSION: kraft_version} if kraft_version else image.features
    return FinalizedFeatures(levels, image.offset if image.features else -1)


def eligible_leader_replicas_enabled(image: MetadataImage) -> bool:
    """Whether the cluster tracks replicas that are safe to elect outside the in-sync set (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
