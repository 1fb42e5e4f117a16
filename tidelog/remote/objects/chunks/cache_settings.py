"""What a cache may hold and how long it waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

NowMs: TypeAlias = Callable[[], int]
"""Monotonic milliseconds."""


def monotonic_ms() -> int:
    """The machine's clock for durations."""
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """`size` is in bytes (in entries for manifests); None is no bound. `threads` get ahead of readers."""

    size: int | None
    retention_ms: int | None = 600_000
    get_timeout_ms: int = 10_000
    threads: int = 8
