"""The settings of a directory as the bucket, for nodes and for commands."""

from __future__ import annotations

from pathlib import Path


def storage_config(tier: Path) -> dict[str, str]:
    return {
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(tier),
    }


def bucket_options(tier: Path) -> list[str]:
    return ["-C", "storage.backend.class=filesystem", "-C", f"storage.root={tier}"]
