"""The broker process under attack, and the reports of the kernel and of its metrics."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.harness.hostile.regular_client import TOPIC
from tests.support.network.raw_client import RawClient
from tidelog.local_cluster.ports import free_ports
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.security.certificate_authority import Authority

ROOT: Final = Path(__file__).resolve().parents[3]
HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0
SCRAPE_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.02
STALL_METRIC: Final = "tidelog_event_loop_stall_seconds_max"
RESET_PEAK_MEMORY: Final = "5"
KIBIBYTE: Final = 1024

PLAIN_TOPIC: Final = "plain"
COMPACTED_TOPIC: Final = "compacted"
RECOMPRESSED_TOPIC: Final = "recompressed"
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    TOPIC: {},
    PLAIN_TOPIC: {},
    COMPACTED_TOPIC: {"cleanup.policy": "compact"},
    RECOMPRESSED_TOPIC: {"compression.type": "gzip"},
}
"""Topics that every target has, each with two partitions."""
PARTITIONS: Final = 2

USER: Final = "alice"
"""A user of the listener with SASL."""

SETTINGS: Final = {
    "node.id": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT",
    "ssl.keystore.type": "PEM",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="not guessed";'
    ),
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}

_ADDRESS: Final = re.compile(r"([\w.-]+):(\d+)\s*$")


class TargetError(Exception):
    """The broker did not start, or refused the preparation of an attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of the broker process at one moment."""

    memory_bytes: int
    descriptors: int
    connections: int
    delayed_operations: int
    """Operations in purgatories."""
    stall_ms: float | None
    """The longest stall of the event loop that the broker reports, or None."""


class Target:
    """A broker with an empty data directory, during a `with` block."""

    def __init__(self, settings: Mapping[str, str] | None = None, open_files_max: int | None = None) -> None:
        self.host = HOST
        self.port = 0
        self._settings = {**SETTINGS, **(settings or {})}
        self._open_files_max = open_files_max
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-hostile-"))
        self._log_path = self.directory / "broker.log"
        self._metrics_port = self._tls_port = self._sasl_port = 0
        self.failure_delay_s = 0.1
        """The delay of the response to a failed authentication."""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Target:
        try:
            self.start()
            self._create_topics()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # ---- the process

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None, "the broker is not started"
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Return the address for clients."""
        return self.host, self.port

    @property
    def tls_address(self) -> tuple[str, int]:
        """Return the address of the listener with TLS."""
        return self.host, self._tls_port

    @property
    def sasl_address(self) -> tuple[str, int]:
        """Return the address of the listener with SASL, without TLS."""
        return self.host, self._sasl_port

    @property
    def metrics_address(self) -> tuple[str, int]:
        """Return the address of the metrics."""
        return self.host, self._metrics_port

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the process, or None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def start(self) -> None:
        """Start the broker with its directory and wait until it responds."""
        self._metrics_port, self._tls_port, self._sasl_port = free_ports(3)
        values = {
            # The process prints the port of the last one.
            "listeners": f"TLS://{HOST}:{self._tls_port},SASL://{HOST}:{self._sasl_port},PLAINTEXT://{HOST}:0",
            "ssl.keystore.location": str(self._key_store()),
            "connection.failed.authentication.delay.ms": str(int(self.failure_delay_s * 1000)),
            "log.dirs": str(self.directory / "data"),
            "metrics.port": str(self._metrics_port),
            **self._settings,
        }
        command = [sys.executable, "-m", "tidelog.broker", "--log-level=WARNING"]
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(
                [*command, *(f"--override={key}={value}" for key, value in values.items())],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=self._limits(),
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        match = _ADDRESS.search(line)
        if match is None:
            raise TargetError(f"the broker printed {line!r} instead of its address\n{self.log()}")
        self.port = int(match[2])

    def _key_store(self) -> Path:
        path = self.directory / "broker.pem"
        return path if path.exists() else Authority.create().issue("broker").write_pem(path)

    def stop(self) -> None:
        """Stop the broker and remove its data."""
        self.terminate()
        shutil.rmtree(self.directory, ignore_errors=True)

    def terminate(self) -> None:
        """Stop the broker, or kill it if it does not stop; keep its data."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _limits(self) -> Callable[[], None] | None:
        limit = self._open_files_max
        if limit is None:
            return None
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    # ---- topics

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic; raise TargetError if the broker refuses."""
        settings = tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        )
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
        with RawClient(*self.address) as client:
            created = client.send_request(request, 7, CreateTopicsResponse).topics[0]
        if created.error_code:
            raise TargetError(f"topic {name}: {created.error_message}")

    def _create_topics(self) -> None:
        """Create the topics of all attacks, and let the broker create those of its coordinators."""
        for name, configs in TOPICS.items():
            self.create_topic(name, PARTITIONS, configs)
        with RawClient(*self.address) as client:
            for key_type in (0, 1):
                _until_no_error(partial(_find_coordinator, client, key_type))
            producer = InitProducerIdRequest(
                transactional_id="warm-up",
                transaction_timeout_ms=10_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            _until_no_error(lambda: client.send_request(producer, 4, InitProducerIdResponse).error_code)
            client.send_request(MetadataRequest(topics=None), 9, MetadataResponse)

    # ---- what it uses

    def memory_bytes(self) -> int:
        """Return the resident memory."""
        return self._memory("VmRSS")

    def peak_memory_bytes(self) -> int:
        """Return the largest resident memory since `reset_peak_memory`."""
        return self._memory("VmHWM")

    def reset_peak_memory(self) -> None:
        """Start a new peak with the present memory."""
        Path(f"/proc/{self.pid}/clear_refs").write_text(RESET_PEAK_MEMORY)

    def descriptors(self) -> int:
        """Return the number of open descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resources(self) -> Resources:
        """Return the present resources of the process; raise OSError while its metrics are not available."""
        metrics = self.metrics()
        return Resources(
            memory_bytes=self.memory_bytes(),
            descriptors=self.descriptors(),
            connections=int(metrics["kafka_server_socketservermetrics_connections"]),
            delayed_operations=int(metrics["kafka_server_delayedoperationpurgatory_numdelayedoperations"]),
            stall_ms=metrics[STALL_METRIC] * 1000 if STALL_METRIC in metrics else None,
        )

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics, each summed over its labels; raise OSError if they are not available."""
        url = "http://{}:{}/metrics".format(*self.metrics_address)
        try:
            with urllib.request.urlopen(url, timeout=SCRAPE_TIMEOUT_S) as response:
                text = response.read().decode()
        except urllib.error.URLError as error:
            raise OSError(f"{url}: {error.reason}") from error
        totals: dict[str, float] = defaultdict(float)
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                totals[name.partition("{")[0]] += float(value)
        return totals

    def log(self) -> str:
        """Return the broker's log, which has warnings and errors only."""
        return self._log_path.read_text(errors="replace")

    def _memory(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * KIBIBYTE
        raise ProcessLookupError(f"process {self.pid} has no {field}")


def _find_coordinator(client: RawClient, key_type: int) -> int:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("warm-up",))
    return client.send_request(request, 4, FindCoordinatorResponse).coordinators[0].error_code


def _until_no_error(ask: Callable[[], int]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while code := ask():
        if time.monotonic() > deadline:
            raise TargetError(f"the coordinators are not ready: {ErrorCode(code).name}")
        time.sleep(POLL_S)
