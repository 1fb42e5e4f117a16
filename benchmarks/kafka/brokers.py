"""The brokers of one engine on empty directories: start, stop, topics, CPU and memory."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from benchmarks.processes import KIBIBYTE, BenchmarkError, tree_cpu_seconds
from benchmarks.tiered_broker import s3_store
from tests.reference_software.kafka_programs import Engine, Programs
from tidelog.local_cluster.ports import free_ports
from tidelog.security.certificate_authority import Authority

HOST: Final = "127.0.0.1"
START_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 30.0
DELETED_WITHIN_S: Final = 60.0
ADMIN_WITHIN_S: Final = 60.0
POLL_S: Final = 0.02

SETTINGS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # As in the configuration file of Apache Kafka's distribution: consumers of a group need not wait.
    "group.initial.rebalance.delay.ms": "0",
    # Files of deleted topics go at once, so that the next turn does not share the disk with them.
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "1000",
}
"""The same text for both engines; every other key has its default."""

S3_BACKEND: Final = {"rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The brokers that a case needs; cases in sequence with an equal setup share started ones.

    With `per_turn`, each turn gets brokers of its own, which it starts itself. `plugins` are classpath
    entries of Apache Kafka's brokers. With `has_s3`, each engine has an S3 server with a bucket. With
    `has_tls`, each node has a listener with TLS besides the one without.
    """

    nodes: int = 1
    settings: tuple[tuple[str, str], ...] = ()
    plugins: tuple[str, ...] = ()
    has_s3: bool = False
    has_tls: bool = False
    per_turn: bool = False
    is_warmed_up: bool = True


class Brokers:
    """One engine's nodes, each broker and controller in one process."""

    def __init__(self, engine: Engine, setup: Setup, jars: Path) -> None:
        self.engine = engine
        self.setup = setup
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-bench-"))
        self.programs = Programs(folder=self.folder, jars=jars, plugins=setup.plugins)
        self.programs.write_logging()
        ports, nodes = free_ports(3 * setup.nodes), setup.nodes
        self.ports, self._controller_ports = ports[:nodes], ports[nodes : 2 * nodes]
        self._tls_ports = ports[2 * nodes :]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._admin: AdminClient | None = None
        self._services = ExitStack()
        self._s3_settings: dict[str, str] = {}

    @property
    def addresses(self) -> str:
        """Return the bootstrap servers."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def connection(self, *, uses_tls: bool = False) -> dict[str, Any]:
        """Return the options of a load of librdkafka: the bootstrap servers, and its settings for TLS."""
        if not uses_tls:
            return {"servers": self.addresses}
        return {
            "servers": ",".join(f"{HOST}:{port}" for port in self._tls_ports),
            "client": {"security.protocol": "SSL", "ssl.ca.location": str(self._trust_store)},
        }

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the nodes."""
        return [process.pid for process in self._processes]

    @property
    def replication_factor(self) -> int:
        """Return the number of nodes: every node has a replica of every topic."""
        return self.setup.nodes

    def format(self) -> None:
        """Write the configuration and format the directories; the S3 server is started if there is one."""
        if self.setup.has_s3:
            self._s3_settings = {**self._services.enter_context(s3_store()).settings(), **S3_BACKEND}
        if self.setup.has_tls:
            authority = Authority.create()
            authority.issue(HOST, [HOST]).write_pem(self._key_store)
            authority.write(self._trust_store)
        for number in range(self.setup.nodes):
            settings = {**self._settings(number), **self._tls_settings(number)}
            self._config(number).write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
            self.programs.format(self.engine, self._config(number))

    def spawn(self) -> None:
        """Start the processes; do not wait for them."""
        _raise_descriptor_limit()
        self._processes = [
            self.programs.start(self.engine, self._config(number), self.output(number))
            for number in range(self.setup.nodes)
        ]

    def start(self) -> None:
        """Format and start; return when every broker is in the metadata. Raise BenchmarkError on failure."""
        self.format()
        self.spawn()
        deadline = time.monotonic() + START_WITHIN_S
        while len(self.known_brokers()) < self.setup.nodes:
            self.check_running()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.engine.value} did not start within {START_WITHIN_S:.0f} s")
            time.sleep(POLL_S)

    def check_running(self) -> None:
        """Raise BenchmarkError with the end of the log if a node has ended."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                last = self.output(number).read_text(errors="replace")[-2000:]
                raise BenchmarkError(
                    f"{self.engine.value}, node {number + 1} ended with {process.returncode}: {last}"
                )

    def stop(self) -> None:
        """Stop the nodes, and kill those that do not stop. Their data remain."""
        self._admin = None
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN_S
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []

    def remove(self) -> None:
        """Stop the nodes and remove their data."""
        self.stop()
        self._services.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def known_brokers(self) -> set[int]:
        """Return the ids of the brokers in the metadata; empty while no broker responds."""
        try:
            return set(self.admin.list_topics(timeout=2.0).brokers)
        except Exception:
            return set()

    @property
    def admin(self) -> AdminClient:
        """Return the admin client of librdkafka."""
        if self._admin is None:
            quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
            self._admin = AdminClient({"bootstrap.servers": self.addresses, **quiet})
        return self._admin

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with a replica on every node, and wait until each partition has a leader."""
        new = NewTopic(topic, partitions, self.replication_factor, config=dict(configs or {}))
        _wait_for(self.admin.create_topics([new], operation_timeout=ADMIN_WITHIN_S).values())
        deadline = time.monotonic() + ADMIN_WITHIN_S
        while True:
            found = self.admin.list_topics(topic, timeout=ADMIN_WITHIN_S).topics[topic].partitions.values()
            if len(found) == partitions and all(each.leader >= 0 for each in found):
                return
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.engine.value}: topic {topic} has partitions without a leader")
            time.sleep(POLL_S)

    def wait_until_served(self, topic: str, partitions: int) -> None:
        """Wait until the leader of every partition responds: metadata may name it before it is ready."""
        places = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        deadline = time.monotonic() + ADMIN_WITHIN_S
        while places:
            futures = self.admin.list_offsets(places, request_timeout=ADMIN_WITHIN_S)
            places = {place: OffsetSpec.latest() for place, future in futures.items() if future.exception()}
            if places and time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{self.engine.value}: {len(places)} partitions of {topic} are not served"
                )

    def alter_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change configs of a topic."""
        entries = [
            ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
            for name, text in configs.items()
        ]
        changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        _wait_for(self.admin.incremental_alter_configs([changed]).values())

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until its files are deleted. Raise BenchmarkError on timeout."""
        _wait_for(self.admin.delete_topics([topic], operation_timeout=ADMIN_WITHIN_S).values())
        deadline = time.monotonic() + DELETED_WITHIN_S
        while any(self.partition_folders(topic)):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.engine.value}: files of deleted topic {topic} remain")
            time.sleep(POLL_S)

    def partition_folders(self, topic: str) -> list[Path]:
        """Return the folders of a topic's partitions on all nodes, including those scheduled for deletion."""
        return [
            folder for number in range(self.setup.nodes) for folder in self.data(number).glob(f"{topic}-*")
        ]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all nodes so far, in user and kernel mode, including child processes."""
        return sum(tree_cpu_seconds(pid) for pid in self.pids)

    def resident_bytes(self) -> int:
        """Return the resident memory of all nodes."""
        return sum(_status_bytes(pid, "VmRSS") for pid in self.pids)

    def peak_resident_bytes(self) -> int:
        """Return the sum of the peaks of the resident memory of the nodes."""
        return sum(_status_bytes(pid, "VmHWM") for pid in self.pids)

    def data(self, number: int) -> Path:
        """Return the log directory of a node."""
        return self.folder / f"data-{number + 1}"

    def output(self, number: int) -> Path:
        """Return the output of a node."""
        return self.folder / f"node-{number + 1}.out"

    def _config(self, number: int) -> Path:
        return self.folder / f"node-{number + 1}.properties"

    @property
    def _key_store(self) -> Path:
        return self.folder / "broker.pem"

    @property
    def _trust_store(self) -> Path:
        return self.folder / "trusted.pem"

    def _tls_settings(self, number: int) -> dict[str, str]:
        if not self.setup.has_tls:
            return {}
        listeners = self._settings(number)["listeners"]
        return {
            "listeners": f"{listeners},SSL://{HOST}:{self._tls_ports[number]}",
            "listener.security.protocol.map": f"{SETTINGS['listener.security.protocol.map']},SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key_store),
        }

    def _settings(self, number: int) -> dict[str, str]:
        voters = [f"{each + 1}@127.0.0.1:{port}" for each, port in enumerate(self._controller_ports)]
        internal = str(self.setup.nodes)
        return {
            **SETTINGS,
            "node.id": str(number + 1),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[number]},"
            f"CONTROLLER://127.0.0.1:{self._controller_ports[number]}",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self.data(number)),
            "offsets.topic.replication.factor": internal,
            "transaction.state.log.replication.factor": internal,
            "transaction.state.log.min.isr": "1" if self.setup.nodes == 1 else "2",
            **self._s3_settings,
            **dict(self.setup.settings),
        }


def _wait_for(futures: Iterable[Future[None]]) -> None:
    for future in futures:
        future.result(ADMIN_WITHIN_S)


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * KIBIBYTE
    raise BenchmarkError(f"process {pid} has no {field}")


def _raise_descriptor_limit() -> None:
    """Let brokers open as many files as this machine allows: 2,000 partitions need several each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
