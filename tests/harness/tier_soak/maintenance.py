"""Commands of an operator during the soak: a topic is mounted, and damaged objects are repaired."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

from tests.harness.tier_soak.records import Reader
from tests.support.tier.audit import Borders, TierAudit
from tidelog.remote.ports.segment_metadata import TopicIdPartition

MOUNT: Final = "own"
"""The mount of the bucket of the cluster itself."""
MOUNTED_TOPIC: Final = "mounted"
_MOUNTED_WITHIN_S: Final = 300.0
_COMMAND_TIMEOUT_S: Final = 300
_FOLLOWS_WITHIN_S: Final = 300.0
_CHECK_EVERY_S: Final = 0.25


class Maintenance:
    """Runs `tidelog tier` with the `settings` of the nodes at `servers`, and collects `problems`."""

    def __init__(self, servers: str, settings: Mapping[str, str], audit: TierAudit, seed: int) -> None:
        self.problems: list[str] = []
        self.repaired_segments = 0
        self._servers = servers
        self._settings = settings
        self._audit = audit
        self._random = Random(seed)

    def mount(self, source: str) -> None:
        """Mount `source` from the bucket of the cluster itself; requests to the store may fail meanwhile."""
        deadline = time.monotonic() + _MOUNTED_WITHIN_S
        while True:
            try:
                self._run("mount", MOUNT, source, "--as", MOUNTED_TOPIC, "--execute")
                return
            except RuntimeError as error:
                if time.monotonic() > deadline:
                    self.problems.append(str(error))
                    return

    def read_mounted(self, source: str, borders: Callable[[str], Borders | None]) -> Reader:
        """Read the mounted topic to the end of its source in the tier."""
        deadline, expected, end = time.monotonic() + _FOLLOWS_WITHIN_S, 1, 0
        while end != expected and time.monotonic() < deadline:
            of_source, of_mounted = borders(source), borders(MOUNTED_TOPIC)
            if of_source is not None and of_mounted is not None:
                expected, end = of_source.tiered_end, of_mounted.end
            time.sleep(_CHECK_EVERY_S)
        if end != expected:
            self.problems.append(f"the mounted topic ends at {end}, its source at {expected}")
        reader = Reader(self._servers, MOUNTED_TOPIC, end, source)
        reader.start()
        reader.join(_FOLLOWS_WITHIN_S)
        if reader.position < end:
            self.problems.append(f"the reader of the mounted topic stopped at offset {reader.position}")
        return reader

    def repair(self, client: Any, bucket: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Damage the newest object of each partition, which replicas still have, and repair it."""
        for partition in partitions:
            newest = self._audit.segments(partition)[-1]
            (key,) = (key for key in self._audit.expected_objects([newest]) if key.endswith(".log"))
            before = client.get_object(Bucket=bucket, Key=key)["Body"].read()
            client.put_object(Bucket=bucket, Key=key, Body=self._damaged(before))
            try:
                outcomes = self._run("repair", partition.topic, "--execute")
            except RuntimeError as error:
                self.problems.append(f"{partition.topic}: {error}")
                continue
            self.repaired_segments += sum(outcome["is_repaired"] for outcome in outcomes)
            if client.get_object(Bucket=bucket, Key=key)["Body"].read() != before:
                self.problems.append(f"{partition.topic}: {key} has other bytes after its repair")

    def _damaged(self, data: bytes) -> bytes:
        position, bit = self._random.randrange(len(data)), self._random.randrange(8)
        return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]

    def _run(self, *arguments: str) -> Any:
        """Return the document that the command prints. Errors: RuntimeError with its output."""
        options = [part for key, text in self._settings.items() for part in ("-C", f"{key}={text}")]
        done = subprocess.run(
            [sys.executable, "-m", "tidelog", "tier", *arguments, *options, "--json"],
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
            env={**os.environ, "TIDELOG_BOOTSTRAP": self._servers},
        )
        if done.returncode:
            text = done.stderr.strip() or done.stdout.strip()
            raise RuntimeError(f"tidelog tier {arguments[0]} ended with {done.returncode}: {text}")
        return json.loads(done.stdout)
