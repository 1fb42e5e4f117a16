"""Instances of a Kafka Streams application that counts words, and the counts that it has written."""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.support.waiting import wait_until

PROGRAM = Path(__file__).parent / "WordCount.java"
TIMEOUT_S = 90
_COUNT = struct.Struct(">q")


@dataclass
class Instance:
    """One process of the application."""

    process: subprocess.Popen[bytes]
    output: Path

    @classmethod
    def start(cls, jars: Path, servers: str, directory: Path, guarantee: str, *properties: str) -> Instance:
        """Start a process with its state and output in `directory`; it continues with a state that exists."""
        directory.mkdir(exist_ok=True)
        output = directory / "output"
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(PROGRAM)]
        arguments = [servers, "words", str(directory / "state"), guarantee, *properties]
        with output.open("ab") as file:
            process = subprocess.Popen(
                ["nice", "-n", "5", *command, *arguments],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return cls(process, output)

    def wait_until_running(self) -> None:
        """Wait until it has tasks."""
        wait_until(lambda: "state RUNNING" in self.output.read_text(), timeout_s=TIMEOUT_S)

    def close(self) -> None:
        """Close the instance: it leaves the group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(TIMEOUT_S) == 0, self.output.read_text()

    def kill(self) -> None:
        """Kill the process, if it runs: its session expires."""
        self.process.kill()
        self.process.wait()


class CountReader:
    """Reads the topic `counts`; every count of a word must be larger than the one before."""

    def __init__(self, servers: str) -> None:
        self.counts: Counter[str] = Counter()
        self.repeated = 0
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition("counts", 0, 0)])

    def wait_for(self, expected: Mapping[str, int]) -> None:
        """Wait until the last counts are `expected`."""
        wait_until(lambda: self._read() == expected, timeout_s=TIMEOUT_S)

    def _read(self) -> Counter[str]:
        for message in self._consumer.consume(1000, 0.5):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert key is not None and value is not None
            word, count = key.decode(), _COUNT.unpack(value)[0]
            self.repeated += count <= self.counts[word]
            self.counts[word] = count
        return self.counts

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
