"""Runs the well-behaved client and stores its measurements."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from tests.harness.hostile.measurements import SAMPLE, Kind, Sample, pending_requests
from tests.harness.hostile.target import ROOT, Target

STOP_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.002


class Observer:
    """The well-behaved client of one broker, during a `with` block."""

    def __init__(self, target: Target) -> None:
        command = [sys.executable, "-m", "tests.harness.hostile.regular_client"]
        self._process = subprocess.Popen(
            [*command, target.host, str(target.port), str(target.pid)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._samples: list[Sample] = []
        self._last: dict[Kind, Sample] = {}
        """The latest measurement of each kind."""
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
        """Return the requests that were in flight at any time from `start_ns` to `end_ns`."""
        samples: list[Sample] = []
        # The requests are in the order of their responses.
        for sample in reversed(self._samples):
            if sample.ended_ns <= start_ns:
                break
            if sample.sent_ns < end_ns:
                samples.append(sample)
        return [*samples, *pending_requests(self._last, end_ns)]

    def wait_until_served(self, since_ns: int, timeout_s: float) -> bool:
        """Return whether requests sent after `since_ns` get responses on both connections."""
        deadline = time.monotonic() + timeout_s
        while not all(self._is_served(kind, since_ns) for kind in (Kind.PROBE, Kind.WORK)):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _is_served(self, kind: Kind, since_ns: int) -> bool:
        last = self._last.get(kind)
        return last is not None and last.sent_ns >= since_ns and not last.is_error

    def _read(self) -> None:
        assert self._process.stdout is not None
        while True:
            data = self._process.stdout.read(SAMPLE.size)
            if len(data) < SAMPLE.size:
                return
            kind, is_error, sent_ns, elapsed_ns, without_cpu_ns = SAMPLE.unpack(data)
            sample = Sample(kind, bool(is_error), sent_ns, elapsed_ns, without_cpu_ns)
            self._samples.append(sample)
            self._last[kind] = sample
