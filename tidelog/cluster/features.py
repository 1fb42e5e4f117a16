"""Feature levels: which this software serves, which it can live with, and what the cluster has agreed on.

Clients read the finalized levels from ApiVersions and choose protocols by them. A new cluster
starts at the levels of Kafka 4.3 of what is served; metadata.version 30 is 4.3-IV0.

A node serves no consumer groups of the new protocol (KIP-848), share groups or streams groups, so their
features are not shown to clients, not finalized by a new cluster and cannot be raised by a controller of
this software. A cluster of Apache Kafka has finalized them at 1, and its controllers refuse brokers that
do not register these levels. A node registers them because it can live with them: coordinators keep the
records of such groups, as `COMPATIBLE_FEATURES` says.

Source: MetadataVersion and Feature of Apache Kafka 4.3.1, and the records of its storage tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.cluster.image import FeatureRange, MetadataImage

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

METADATA_VERSION_4_3: Final = 30

SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {
    METADATA_VERSION: FeatureRange(7, METADATA_VERSION_4_3),
    KRAFT_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
}
"""What this software serves: shown to clients, and the limit of UpdateFeatures.

A feature that is not served at any level is absent, as in Kafka.
"""

COMPATIBLE_FEATURES: Final[Mapping[str, FeatureRange]] = {
    **SUPPORTED_FEATURES,
    "group.version": FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
}
"""What brokers and controllers register: the levels of a cluster that a node can be part of."""

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = {
    METADATA_VERSION: METADATA_VERSION_4_3,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""What a new cluster starts at, in the order in which its first records stand."""


class FinalizedFeatures(NamedTuple):
    """The agreed levels as of `epoch`, an offset of the metadata log; -1 when there are none."""

    levels: Mapping[str, int]
    epoch: int


def finalized_features(image: MetadataImage, kraft_version: int = 0) -> FinalizedFeatures:
    """Return the cluster's levels for ApiVersions: those that this software serves.

    A level that it does not serve, finalized by a controller of Apache Kafka, is left out: a client must not
    choose a protocol by it. `kraft_version` is shown only above 0.
    """
    levels = {**image.features, KRAFT_VERSION: kraft_version} if kraft_version else image.features
    served = {name: level for name, level in levels.items() if _is_served(name, level)}
    return FinalizedFeatures(served, image.offset if image.features else -1)


def _is_served(name: str, level: int) -> bool:
    supported = SUPPORTED_FEATURES.get(name)
    return supported is not None and supported.lowest <= level <= supported.highest


def eligible_leader_replicas_enabled(image: MetadataImage) -> bool:
    """Whether the cluster tracks replicas that are safe to elect outside the in-sync set (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
