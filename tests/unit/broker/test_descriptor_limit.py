"""A broker process that may open few files refuses connections and partitions, and no directory fails."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs.partition_logs import batch
from tests.support.network.raw_client import RawClient
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

OPEN_FILES_MAX = 160
SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "num.partitions": "1",
    "log.cleaner.enable": "false",
}
_ADDRESS = re.compile(r":(\d+)\s*$")


class Process:
    """A broker process with data in `folder` that may open OPEN_FILES_MAX files."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tidelog.broker", "--override", f"log.dirs={folder / 'data'}"]
        for key, value in SETTINGS.items():
            command += ["--override", f"{key}={value}"]
        self.log = folder / "broker.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_MAX,) * 2),
            )
        assert self._process.stdout is not None
        address = _ADDRESS.search(self._process.stdout.readline())
        assert address is not None, self.log.read_text()
        self.port = int(address[1])

    @property
    def open_files(self) -> int:
        """Return the number of open descriptors."""
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def allow_open_files(self, count: int) -> None:
        """Change the limit of the running process; open descriptors stay open."""
        resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, (count, OPEN_FILES_MAX))

    def client(self) -> RawClient:
        """Return a new connection."""
        return RawClient("127.0.0.1", self.port)

    def stop(self) -> None:
        """Stop the process cleanly."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(20) == 0, self.log.read_text()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        """Kill the process if it runs."""
        self._process.kill()
        self._process.wait()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Yield a list of processes, which are killed at the end."""
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()


def create(client: RawClient, name: str, partitions: int) -> tuple[int, str]:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=5_000)
    (result,) = client.send_request(request, 7, CreateTopicsResponse).topics
    return result.error_code, result.error_message or ""


def produce(client: RawClient, name: str, partitions: int) -> set[int]:
    """Return the error codes of a batch to each partition."""
    data = tuple(
        PartitionProduceData(index=index, records=bytes(batch(["value"]))) for index in range(partitions)
    )
    topic = TopicProduceData(name=name, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=(topic,))
    topics = client.send_request(request, 9, ProduceResponse).responses
    return {partition.error_code for each in topics for partition in each.partition_responses}


def log_directory_errors(client: RawClient) -> set[int]:
    response = client.send_request(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    return {each.error_code for each in response.results}


def fill_with_sockets(process: Process) -> list[socket.socket]:
    """Open as many connections as a process could have, and wait until the broker has closed some."""
    sockets = [socket.create_connection(("127.0.0.1", process.port), 5) for _ in range(OPEN_FILES_MAX)]
    wait_until(lambda: select.select(sockets, [], [], 0)[0])
    return sockets


def test_sockets_and_topics_that_exhaust_descriptors_do_not_harm_partitions(
    tmp_path: Path, processes: list[Process]
) -> None:
    processes.append(broker := Process(tmp_path))
    with broker.client() as client:
        code, text = create(client, "too-large", 2_000)
        assert code == ErrorCode.POLICY_VIOLATION
        assert f"the limit is {OPEN_FILES_MAX // 2}" in text
        assert create(client, "idle", 40) == (ErrorCode.NONE, "")
        sockets = fill_with_sockets(broker)
        assert broker.open_files <= OPEN_FILES_MAX - 30, "the reserve is free"
        assert create(client, "busy", 30) == (ErrorCode.NONE, "")
        assert produce(client, "busy", 30) == {ErrorCode.NONE}
        assert produce(client, "idle", 40) == {ErrorCode.NONE}
        assert create(client, "more", 11)[0] == ErrorCode.POLICY_VIOLATION
        assert log_directory_errors(client) == {ErrorCode.NONE}
    for each in sockets:
        each.close()
    broker.stop()
    processes.append(again := Process(tmp_path))
    with again.client() as client:
        assert produce(client, "busy", 30) == {ErrorCode.NONE}
    again.stop()
    assert "ERROR" not in broker.log.read_text()


def test_without_descriptors_a_log_is_created_later_and_appends_are_refused(
    tmp_path: Path, processes: list[Process]
) -> None:
    processes.append(broker := Process(tmp_path))
    with broker.client() as client:
        assert create(client, "old", 1) == (ErrorCode.NONE, "")
        assert produce(client, "old", 1) == {ErrorCode.NONE}
        assert create(client, "idle", 1) == (ErrorCode.NONE, "")
        broker.allow_open_files(3)
        assert produce(client, "old", 1) == {ErrorCode.NONE}, "its descriptor is open"
        assert produce(client, "idle", 1) == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert log_directory_errors(client) == {ErrorCode.NONE}
        assert create(client, "new", 1) == (ErrorCode.NONE, "")
        assert produce(client, "new", 1) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}, "its log is not there yet"
        broker.allow_open_files(OPEN_FILES_MAX)
        assert produce(client, "idle", 1) == {ErrorCode.NONE}
        wait_until(lambda: produce(client, "new", 1) == {ErrorCode.NONE})
    broker.stop()
