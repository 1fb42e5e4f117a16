"""Aiven's RemoteStorageManager, called through Kafka's interface by a small Java program.

`TIDELOG_AIVEN_CLASSPATH` names the plugin's jars with those of Kafka 3.9 to 4.1 (the plugin's release of 2025
uses classes that Kafka 4.2 moved).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.tier.sealed_segments import StoredSegment
from tidelog.remote.ports.storage_manager import IndexType

DRIVER = ROOT / "tests" / "kafka" / "aiven" / "SegmentDriver.java"
PLUGIN = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
FILE_SYSTEM = "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage"


class AivenPlugin:
    """The plugin with a directory as its store; the keys of `configs` have no prefix `storage.`."""

    def __init__(self, classpath: str, root: Path, work: Path, configs: Mapping[str, str]) -> None:
        self._classpath = classpath
        self._work = work
        work.mkdir(parents=True, exist_ok=True)
        storage = {"class": PLUGIN, "storage.backend.class": FILE_SYSTEM, "storage.root": str(root)}
        _write(work / "configs.properties", {**storage, **configs})

    def copy(self, segment: StoredSegment) -> bytes | None:
        """Copy a segment with the plugin; return its custom metadata."""
        output = self._run(segment, None, "copy").split()[1]
        return None if output == "-" else bytes.fromhex(output)

    def read(
        self, segment: StoredSegment, custom_metadata: bytes | None, start: int, end: int | None
    ) -> tuple[bytes, dict[IndexType, bytes]]:
        """Read a range (inclusive) and every existing small file with the plugin."""
        log = self._work / "fetched.log"
        paths = {kind: self._work / f"{kind.name}.fetched" for kind in IndexType}
        for path in paths.values():
            path.unlink(missing_ok=True)
        steps = [f"index:{kind.name}:{path}" for kind, path in paths.items()]
        last = "end" if end is None else end
        self._run(segment, custom_metadata, f"fetch:{start}:{last}:{log}", *steps)
        return log.read_bytes(), {kind: path.read_bytes() for kind, path in paths.items() if path.exists()}

    def delete(self, segment: StoredSegment, custom_metadata: bytes | None) -> None:
        """Delete a segment with the plugin."""
        self._run(segment, custom_metadata, "delete")

    def _run(self, segment: StoredSegment, custom_metadata: bytes | None, *steps: str) -> str:
        described = segment.properties()
        if custom_metadata is not None:
            described["custom.metadata"] = custom_metadata.hex()
        _write(self._work / "segment.properties", described)
        command = ["java", "-cp", self._classpath, str(DRIVER)]
        command += [str(self._work / "configs.properties"), str(self._work / "segment.properties"), *steps]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
