"""The object store of a query's options: opened once in a process for all its tasks (shell).

An executor runs one task after the other in the same worker process, and connections stay open.
"""

from __future__ import annotations

from functools import cache

from tidelog.remote.inspection.bucket import Bucket
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX, TierOptions


def opened_bucket(tier: TierOptions) -> Bucket:
    """Return the store of `tier.storage`, for reading only. Errors: OptionError, which names the option."""
    return _opened(tier.storage)


@cache
def _opened(values: tuple[tuple[str, str], ...]) -> Bucket:
    try:
        return Bucket.open(dict(values))
    except ValueError as error:
        # A ConfigError of the storage manager: key=value and what is allowed.
        raise OptionError(f"option {STORAGE_PREFIX}{error}") from error
