"""The duration and the number of the measurements of a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.figures import Figure

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * 1024
MEGA: Final = 1e6

MESSAGE_BYTES: Final = (100, 1024)
BATCH_BYTES: Final = (16 * KIBIBYTE, 64 * KIBIBYTE, MEBIBYTE)

BUFFERS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {},
    ", buffers 100 KiB": {"socket.send.buffer.bytes": "102400", "socket.receive.buffer.bytes": "102400"},
}
"""Settings of the broker by the end of the row's name: the defaults, which leave it to Linux, and Kafka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """`rounds` of `seconds` each; counted amounts are multiplied by `scale`."""

    rounds: int
    seconds: float
    scale: float


FULL: Final = Effort(rounds=5, seconds=2.0, scale=1.0)
QUICK: Final = Effort(rounds=2, seconds=0.7, scale=0.25)

Suite: TypeAlias = Callable[[Effort], Iterator[Figure]]


def size_name(size_bytes: int) -> str:
    """Return a size as text: `16 KiB`, `1 MiB`, `100 B`."""
    if size_bytes >= MEBIBYTE:
        return f"{size_bytes // MEBIBYTE} MiB"
    return f"{size_bytes // KIBIBYTE} KiB" if size_bytes >= KIBIBYTE else f"{size_bytes} B"
