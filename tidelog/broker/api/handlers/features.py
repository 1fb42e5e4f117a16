"""The features of the cluster for the response to ApiVersions."""

from __future__ import annotations

from tidelog.broker.api.handlers.api_versions import Features
from tidelog.cluster.features import SUPPORTED_FEATURES, finalized_features
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey


def features_of(image: MetadataImage, kraft_version: int) -> Features:
    """Return the features that this software supports and the finalized levels of the cluster."""
    finalized = finalized_features(image, kraft_version)
    return Features(
        supported=tuple(
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in SUPPORTED_FEATURES.items()
        ),
        finalized=tuple(
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized.levels.items()
        ),
        epoch=finalized.epoch,
    )
