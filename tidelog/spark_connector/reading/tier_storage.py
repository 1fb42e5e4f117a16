"""The object store of a query's options: opened once in a process for all its tasks (shell).

An executor runs one task after the other in the same worker process, and connections stay open.
"""

from __future__ import annotations

from functools import cache

from tidelog.base.config_definition import ConfigError
from tidelog.remote.inspection.bucket import Bucket
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX, TierOptions


def open_bucket(tier: TierOptions) -> Bucket:
    """Return the store of `tier.storage`, for reading only. Errors: OptionError, which names the option."""
    return _open(tier.storage)


@cache
def _open(values: tuple[tuple[str, str], ...]) -> Bucket:
    try:
        return Bucket.open(dict(values))
    except ConfigError as error:
        option = f"{STORAGE_PREFIX}{error.key}={error.value}"
        raise OptionError(f"Invalid option: {option}; {error.allowed}") from error
