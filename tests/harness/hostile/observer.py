"""Runs the well-behaved client and keeps its measurements."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from tests.harness.hostile.measurements import SAMPLE, Kind, Sample, unanswered
from tests.harness.hostile.target import ROOT, Target

STOP_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.01


class Observer:
    """The well-behaved client of one broker, for the length of a `with` block."""

    def __init__(self, target: Target) -> None:
        command = [sys.executable, "-m", "tests.harness.hostile.well_behaved"]
        self._process = subprocess.Popen(
            [*command, target.host, str(target.port), str(target.pid)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._samples: list[Sample] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def between(self, start_ns: int, end_ns: int) -> Sequence[Sample]:
        """Return the requests that were on their way at some time from `start_ns` to `end_ns`."""
        samples = list(self._samples)
        found = [sample for sample in samples if sample.overlaps(start_ns, end_ns)]
        return [*found, *unanswered(samples, end_ns)]

    def wait_until_served(self, since_ns: int, timeout_s: float) -> bool:
        """Return whether each kind of request that was sent after `since_ns` is answered without an error."""
        deadline = time.monotonic() + timeout_s
        while True:
            served = {s.kind for s in list(self._samples) if s.sent_ns >= since_ns and not s.is_error}
            if len(served) == len(Kind):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        while True:
            data = self._process.stdout.read(SAMPLE.size)
            if len(data) < SAMPLE.size:
                return
            kind, is_error, sent_ns, elapsed_ns, without_cpu_ns = SAMPLE.unpack(data)
            self._samples.append(Sample(kind, bool(is_error), sent_ns, elapsed_ns, without_cpu_ns))
