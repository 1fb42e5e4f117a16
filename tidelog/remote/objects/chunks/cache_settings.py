"""What a cache may hold and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """`size` is in bytes (in entries for manifests); None is no bound. `threads` get ahead of readers."""

    size: int | None
    retention_ms: int | None = 600_000
    get_timeout_ms: int = 10_000
    threads: int = 8
