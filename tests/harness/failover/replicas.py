"""Comparison of the replicas of a topic, byte by byte, in the log directories of stopped nodes.

Segments may begin at different offsets on different nodes, so each log is compared as one stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

CHUNK_BYTES = 1 << 20


def find_differences(data_folders: Iterable[Path], topic: str, partitions: int) -> list[str]:
    """Return one line for every partition whose replicas differ, with size and digest of each."""
    folders = list(data_folders)
    lines = []
    for index in range(partitions):
        digests = {folder: _digest(folder / f"{topic}-{index}") for folder in folders}
        present = {folder: digest for folder, digest in digests.items() if digest is not None}
        if len(set(present.values())) > 1:
            replicas = "; ".join(
                f"{folder.parent.name}: {size} B {text}" for folder, (size, text) in present.items()
            )
            lines.append(f"{topic}-{index}: {replicas}")
    return lines


def _digest(directory: Path) -> tuple[int, str] | None:
    if not directory.is_dir():
        return None
    digest, size = hashlib.sha256(), 0
    for path in sorted(directory.glob("*.log")):
        with path.open("rb") as log:
            while chunk := log.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    return size, digest.hexdigest()[:12]
