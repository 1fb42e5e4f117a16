"""One soak run: the load, the kills, the final reading, and the result of the checker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.soak.broker import KillableBroker
from tests.harness.soak.checker import Findings, check
from tests.harness.soak.history import History, read_history
from tests.harness.soak.load import MixedLoad
from tests.harness.soak.memory import Sample, growth_of_start, growth_over_starts
from tests.harness.soak.share_members import configure_group
from tidelog import Admin
from tidelog.local_cluster.client_settings import ClientSettings

TOPIC = "soak"
MEBIBYTE = 1 << 20
SAMPLE_EVERY_S = 0.5
TOPIC_CONFIG = {"segment.bytes": str(16 * MEBIBYTE), "message.timestamp.type": "CreateTime"}
# The start of Python and the first requests load code and fill pools; growth is measured afterwards.
WARM_UP_S = 15.0
GROWTH_CHECK_S_MIN = 45.0

RESIDENT_BYTES_MAX = 256 * MEBIBYTE
GROWTH_PER_MINUTE_MAX = 4 * MEBIBYTE
"""Offset indexes of active segments grow by about 0.3 MiB a minute at this load, up to their bound."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run. Times are in seconds; `rate` is records per second of each producer."""

    seconds: float = 600.0
    kill_every_s: float = 20.0
    quiet_s: float = 120.0
    rate: float = 300.0
    partitions: int = 6


@dataclass
class Outcome:
    """The result of a run."""

    findings: Findings
    samples: list[Sample]
    start_seconds: list[float]
    log_failures: list[str]
    elapsed_s: float
    problems: list[str] = field(default_factory=list)

    @property
    def growth_quiet(self) -> float:
        """Return the bytes per minute within the last start, after its warm-up."""
        last = self.samples[-1].start if self.samples else 0
        return 60 * growth_of_start(self.samples, last, WARM_UP_S)

    @property
    def growth_over_starts(self) -> float:
        """Return the bytes per minute of the run, from start to start, without the last start."""
        last = self.samples[-1].start if self.samples else 0
        return 60 * growth_over_starts([sample for sample in self.samples if sample.start < last])

    @property
    def peak_bytes(self) -> int:
        """Return the largest sample."""
        return max((sample.resident_bytes for sample in self.samples), default=0)

    def evaluate(self, options: Options) -> None:
        """Add the failures of the run to `problems`."""
        for violation in self.findings.violations:
            self.problems.append(f"{violation.anomaly.value}: {violation.text}")
        self.problems += [f"the broker logged: {line}" for line in self.log_failures[:10]]
        if 0 in (self.findings.acknowledged, self.findings.accepted, self.findings.commits):
            self.problems.append("nothing was acknowledged, accepted or committed")
        if self.peak_bytes > RESIDENT_BYTES_MAX:
            self.problems.append(f"resident memory reached {self.peak_bytes / MEBIBYTE:.0f} MiB")
        if options.quiet_s >= GROWTH_CHECK_S_MIN and self.growth_quiet > GROWTH_PER_MINUTE_MAX:
            self.problems.append(f"resident memory grows by {self.growth_quiet / MEBIBYTE:.1f} MiB a minute")
        if options.seconds >= 300 and self.growth_over_starts > GROWTH_PER_MINUTE_MAX:
            self.problems.append(
                f"memory grows by {self.growth_over_starts / MEBIBYTE:.1f} MiB a minute from start to start"
            )


Progress = Callable[[str], None]


class SoakRun:
    """One run in `directory`, which must be empty."""

    def __init__(self, options: Options, directory: Path, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self._broker = KillableBroker(directory)
        self._history = History(directory / "history.jsonl")
        self._samples: list[Sample] = []
        self._start_seconds: list[float] = []
        self._is_up = False
        self._start_s = 0.0

    async def run(self) -> Outcome:
        """Run; raise BrokerDied if the broker ends by itself."""
        self._start_s = time.monotonic()
        try:
            self._start_broker()
            await self._create_topic()
            load = MixedLoad(
                ClientSettings(bootstrap_servers=self._broker.address),
                TOPIC,
                self._history,
                rate=self._options.rate,
                partitions=self._options.partitions,
            )
            await load.run_during(self._kill_and_sample())
            self._progress("reading all records")
            count = await load.read_everything()
        finally:
            await asyncio.to_thread(self._broker.stop)
            self._history.close()
        self._progress(f"checking {count} records")
        outcome = Outcome(
            check(read_history(self._history.path)),
            self._samples,
            self._start_seconds,
            self._broker.failures(),
            time.monotonic() - self._start_s,
        )
        outcome.evaluate(self._options)
        return outcome

    async def _kill_and_sample(self) -> None:
        """Kill the broker repeatedly, and sample its memory meanwhile."""
        sampling = asyncio.create_task(self._sample())
        try:
            await self._kill_repeatedly()
        finally:
            sampling.cancel()

    async def _kill_repeatedly(self) -> None:
        options = self._options
        end = time.monotonic() + options.seconds
        while (left_s := end - time.monotonic()) > 0:
            await asyncio.sleep(min(options.kill_every_s, left_s))
            if end - time.monotonic() < options.kill_every_s / 4:
                break
            self._is_up = False
            self._broker.kill()
            self._history.add("broker", "kill", "ok")
            await asyncio.to_thread(self._start_broker)
            self._report()
        if options.quiet_s:
            self._progress(f"no more kills for {options.quiet_s:.0f} s")
            await asyncio.sleep(options.quiet_s)

    def _start_broker(self) -> None:
        self._start_seconds.append(self._broker.start())
        self._history.add("broker", "start", "ok")
        self._is_up = True

    async def _create_topic(self) -> None:
        async with Admin(self._broker.address) as admin:
            await admin.create_topic(TOPIC, self._options.partitions, 1, configs=TOPIC_CONFIG)
            await configure_group(admin)

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            if self._is_up:
                now = time.monotonic()
                self._samples.append(
                    Sample(
                        self._broker.starts,
                        now - self._broker.started_at,
                        now - self._start_s,
                        self._broker.resident_bytes(),
                    )
                )

    def _report(self) -> None:
        resident = self._samples[-1].resident_bytes / MEBIBYTE if self._samples else 0
        self._progress(
            f"{time.monotonic() - self._start_s:5.0f} s  kill {self._broker.starts - 1}, "
            f"restarted in {self._start_seconds[-1]:.2f} s, {resident:.0f} MiB before"
        )


def as_json(outcome: Outcome, options: Options) -> str:
    """Return the figures as JSON."""
    findings = outcome.findings
    figures = {
        "seconds": options.seconds,
        "kills": findings.kills,
        "sent": findings.sent,
        "acknowledged": findings.acknowledged,
        "given_up": findings.unknown,
        "in_log": findings.in_log,
        "polled": findings.polled,
        "commits": findings.commits,
        "violations": {anomaly.name: count for anomaly, count in findings.counts.items()},
        "start_seconds_max": round(max(outcome.start_seconds), 3),
        "resident_mib_max": round(outcome.peak_bytes / MEBIBYTE, 1),
        "growth_mib_per_minute_quiet": round(outcome.growth_quiet / MEBIBYTE, 3),
        "growth_mib_per_minute_over_starts": round(outcome.growth_over_starts / MEBIBYTE, 3),
        "problems": outcome.problems,
    }
    return json.dumps(figures, indent=2)
