"""The object store as a query's options describe it: made once in a process for all its tasks (shell).

Executors run one task after the other in the same worker process; connections stay open in between.
"""

from __future__ import annotations

from functools import cache

from tidelog.remote.inspection.bucket import Bucket
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX, TierOptions


def opened_bucket(tier: TierOptions) -> Bucket:
    """The store of `tier.storage`, read and never written. Errors: OptionError naming the option."""
    return _opened(tier.storage)


@cache
def _opened(values: tuple[tuple[str, str], ...]) -> Bucket:
    try:
        return Bucket.open(dict(values))
    except ValueError as error:
        # A ConfigError of the storage manager: key=value and what is allowed.
        raise OptionError(f"option {STORAGE_PREFIX}{error}") from error
