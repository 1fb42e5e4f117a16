"""The settings of a cache."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The limits of a cache: `size` is in bytes (in entries for manifests), None means no limit.

    `threads` is the number of read-ahead threads.
    """

    size: int | None
    retention_ms: int | None
    get_timeout_ms: int
    threads: int
