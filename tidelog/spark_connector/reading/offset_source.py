"""The source of partitions, offsets and segments of a query: brokers, or the bucket alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.tier_options import TierMode
from tidelog.spark_connector.reading.cluster_offsets import ClusterOffsets

if TYPE_CHECKING:
    from tidelog.spark_connector.reading.bucket_offsets import BucketOffsets

OffsetSource: TypeAlias = "ClusterOffsets | BucketOffsets"


def offset_source(options: SourceOptions) -> OffsetSource:
    """Return the source without a request yet. Errors: OptionError for a store that cannot be opened."""
    if options.tier.mode is TierMode.OFFLINE:
        # This imports the libraries of object stores.
        from tidelog.spark_connector.reading.bucket_offsets import BucketOffsets

        return BucketOffsets(options)
    return ClusterOffsets(options)
