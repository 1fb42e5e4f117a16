"""Transcripts of what Kafka's programs print for a cluster of one engine, to compare the two engines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import Engine

_ADDRESS: Final = re.compile(r"(127\.0\.0\.1|localhost):\d+")
_TIME_OF_LOG: Final = re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\]")

TOOL_TIMEOUT_MS: Final = "60000"

Entry = tuple[str, ...]
"""A program and its arguments, its exit code, and its lines."""


@dataclass
class Transcript:
    """What the programs print; `variable` matches ids, which are different for each engine."""

    tools: KafkaTools
    variable: re.Pattern[str]
    entries: list[Entry] = field(default_factory=list)

    def run_groups_tool(self, tool: str, *arguments: str) -> None:
        """Run a program for groups, whose requests may take longer than its default of five seconds."""
        self.run(tool, *arguments, "--timeout", TOOL_TIMEOUT_MS)

    def run(self, tool: str, *arguments: str) -> None:
        """Run a program; keep its lines, sorted and without ids, ports, times and stack traces."""
        done = self.tools.call(tool, *arguments)
        lines = (*done.stdout.splitlines(), *done.stderr.splitlines())
        self.entries.append((tool, *arguments, str(done.returncode), *self._normalized(lines)))

    def _normalized(self, lines: Iterable[str]) -> list[str]:
        kept = (line for line in lines if line.strip() and not line.startswith("\tat "))
        return sorted(map(self._normalize, kept))

    def _normalize(self, line: str) -> str:
        """Return a line with single spaces, and without ids, ports and times of log messages."""
        without_ids = self.variable.sub("ID", line)
        without_times = _TIME_OF_LOG.sub("TIME", without_ids)
        return " ".join(_ADDRESS.sub(r"\1:PORT", without_times).split())


def assert_equal_transcripts(directory: Path, write: Callable[[Engine, Path], list[Entry]]) -> None:
    """Compare the entries that `write` returns for each engine; both run at the same time."""

    def entries_of(engine: Engine) -> list[Entry]:
        own_directory = directory / engine.name
        own_directory.mkdir()
        return write(engine, own_directory)

    with ThreadPoolExecutor(2) as threads:
        own, kafkas = threads.map(entries_of, (Engine.TIDELOG, Engine.KAFKA))
    differences = [pair for pair in zip(own, kafkas, strict=True) if pair[0] != pair[1]]
    assert not differences, "\n\n".join(f"Tidelog: {own}\nKafka: {kafkas}" for own, kafkas in differences)
