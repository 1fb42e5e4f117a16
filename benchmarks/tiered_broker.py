"""A broker with tiered storage in a separate process that can be restarted with the same data."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import BROKER_SETTINGS, BenchmarkError, ServerProcess
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, OffsetSpec, ResourceType
from tidelog.local_cluster.tiering import tiered_settings
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

TIERED_WITHIN_S: Final = 300.0
POLL_S: Final = 0.1
SEGMENT_BYTES: Final = 16 * 1024 * 1024
TIERED: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
}
HURRIED: Final = {"remote.log.manager.task.interval.ms": "200", "log.retention.check.interval.ms": "200"}


@dataclass(frozen=True, kw_only=True)
class TierStore:
    """An object store: its name in rows, its settings after the prefix `storage.`, and the delay of a GET."""

    name: str
    backend: str
    values: Mapping[str, str] = field(default_factory=dict)
    delay_ms: float = 0.0

    def settings(self) -> dict[str, str]:
        """Return the settings of a broker that uses the store."""
        named = {f"rsm.config.storage.{key}": text for key, text in self.values.items()}
        return {"rsm.config.storage.backend.class": self.backend, **named}

    def options(self) -> dict[str, Any]:
        """Return the settings of `benchmarks.loads.tier` for the store."""
        return {"backend": self.backend, "values": dict(self.values), "delay_ms": self.delay_ms}


class TieredBroker:
    """A broker with a new process for each `start`; `folder` keeps the data."""

    def __init__(self, folder: Path, store: TierStore, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._store = store
        own = {**BROKER_SETTINGS, **store.settings(), **HURRIED, "log.dirs": str(folder / "data")}
        self._settings = tiered_settings(folder, 1, {**own, **(settings or {})})
        self.process = ServerProcess("tidelog.broker")

    def start(self) -> float:
        """Start the broker; return the seconds until it accepts connections."""
        arguments = ["--log-level=ERROR", *(f"--override={k}={v}" for k, v in self._settings.items())]
        if self._store.delay_ms:
            module = "benchmarks.servers.delayed_tier"
            self.process = ServerProcess(module, [str(self._store.delay_ms), *arguments])
        else:
            self.process = ServerProcess("tidelog.broker", arguments)
        return self.process.start()

    def restart(self) -> float:
        """Stop the broker cleanly and start it again; return the seconds of the start."""
        self.process.stop()
        return self.start()

    @property
    def place(self) -> dict[str, Any]:
        """Return `host` and `port` as options of loads."""
        return {"host": self.process.host, "port": self.process.port}

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic."""

        async def create() -> None:
            async with Admin(self.process.address) as admin:
                await admin.create_topic(topic, partitions, configs=configs)

        asyncio.run(create())

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change configs of a topic."""

        async def alter() -> None:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
            async with Admin(self.process.address) as admin:
                error = (await admin.incremental_alter_configs({resource: changes}))[resource]
                if error is not None:
                    raise error

        asyncio.run(alter())

    def offsets(self, topic: str, partitions: int, spec: OffsetSpec) -> list[int]:
        """Return the offset that `spec` selects in each partition."""

        async def send_and_receive() -> list[int]:
            names = [TopicPartition(topic, number) for number in range(partitions)]
            async with Admin(self.process.address) as admin:
                found = await admin.list_offsets(dict.fromkeys(names, int(spec)))
            offsets = []
            for name in names:
                result = found[name]
                if isinstance(result, KafkaError):
                    raise result
                offsets.append(result.offset)
            return offsets

        return asyncio.run(send_and_receive())

    def active_start(self, topic: str, partition: int) -> int:
        """Return the base offset of a partition's active segment."""
        files = (self.folder / "data" / f"{topic}-{partition}").glob("*.log")
        return max(int(file.stem) for file in files)

    def until_tiered(self, topic: str, partitions: int) -> list[int]:
        """Wait until only active segments are on disk; return their base offsets. Raise BenchmarkError."""
        deadline = time.monotonic() + TIERED_WITHIN_S
        while time.monotonic() < deadline:
            if all(count == 1 for count in self._local_segments(topic, partitions)):
                return self.offsets(topic, partitions, OffsetSpec.EARLIEST_LOCAL)
            time.sleep(POLL_S)
        raise BenchmarkError(f"{topic} was not in the tier within {TIERED_WITHIN_S:.0f} s")

    def until_copied(self, topic: str, ends: list[int]) -> None:
        """Wait until the tier reaches `ends`. Raise BenchmarkError on timeout."""
        deadline = time.monotonic() + TIERED_WITHIN_S
        while time.monotonic() < deadline:
            found = self.offsets(topic, len(ends), OffsetSpec.LATEST_TIERED)
            if all(latest + 1 >= end for latest, end in zip(found, ends, strict=True)):
                return
            time.sleep(POLL_S / 4)
        raise BenchmarkError(f"{topic} was not copied within {TIERED_WITHIN_S:.0f} s")

    def _local_segments(self, topic: str, partitions: int) -> Iterator[int]:
        for number in range(partitions):
            yield len(list((self.folder / "data" / f"{topic}-{number}").glob("*.log")))


@contextmanager
def tiered_broker(store: TierStore, settings: Mapping[str, str] | None = None) -> Iterator[TieredBroker]:
    """Run a broker in an empty folder during the `with` block; remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    broker = TieredBroker(folder, store, settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.process.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def directory_store(delay_ms: float = 0.0) -> Iterator[TierStore]:
    """Create a directory for objects during the `with` block."""
    folder = tempfile.mkdtemp(prefix="tidelog-bench-tier-")
    name = f"directory + {delay_ms:.0f} ms" if delay_ms else "directory"
    try:
        yield TierStore(name=name, backend="filesystem", values={"root": folder}, delay_ms=delay_ms)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def s3_store() -> Iterator[TierStore]:
    """Run moto in a separate process."""
    with ServerProcess("benchmarks.servers.s3") as server:
        values = {
            "s3.bucket.name": "tier",
            "s3.region": "us-east-1",
            "s3.endpoint.url": f"http://{server.address}",
            "s3.path.style.access.enabled": "true",
            "aws.access.key.id": "testing",
            "aws.secret.access.key": "testing",
        }
        yield TierStore(name="moto", backend="s3", values=values)
