"""Files with secrets, which only their owner may read."""

from __future__ import annotations

from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600, also if it exists with another mode."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)
