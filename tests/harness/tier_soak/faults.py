"""Faults of the object store: continuous faults of single requests, and repeated outages."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.s3.fault_proxy import (
    Fault,
    FaultProxy,
    lost_response,
    reset,
    server_error,
    silence,
    slow_down,
    slow_response,
    truncate,
)

SINGLE_REQUEST_FAULTS: Final[tuple[tuple[Fault, str | None], ...]] = (
    (server_error(), None),
    (server_error(503, "ServiceUnavailable"), None),
    (slow_down(), None),
    (reset(), None),
    (lost_response(), None),
    (truncate(keep=0), "GET"),
    (truncate(keep=1000), "GET"),
    (slow_response(bytes_per_s=2_000), "GET"),
    (silence(), None),
)
"""Faults of single requests, and the affected methods."""


@dataclass(frozen=True, slots=True)
class FaultFrequency:
    """The share of affected requests, and the interval and the duration of outages."""

    share: float = 0.12
    outage_every_s: float = 20.0
    outage_s: float = 8.0


class FaultScheduler(threading.Thread):
    """Injects faults of single requests and outages.

    Outages are alternately refused connections and requests without a response.
    """

    def __init__(self, proxy: FaultProxy, fault_frequency: FaultFrequency, seed: int) -> None:
        super().__init__(name="fault-scheduler", daemon=True)
        self.outages = 0
        self._proxy = proxy
        self._frequency = fault_frequency
        self._random = Random(seed)
        self._stop_event = threading.Event()

    def run(self) -> None:
        """Inject faults until `end`."""
        self._inject_single_faults()
        while not self._stop_event.wait(self._frequency.outage_every_s * self._random.uniform(0.6, 1.4)):
            self.outages += 1
            if self.outages % 2:
                self._proxy.stop_listening()
                self._stop_event.wait(self._frequency.outage_s)
                self._proxy.resume_listening()
            else:
                self._proxy.clear()
                self._proxy.inject(silence())
                self._stop_event.wait(self._frequency.outage_s)
                self._proxy.clear()
                self._inject_single_faults()

    def end(self) -> None:
        """End all faults."""
        self._stop_event.set()
        self.join()
        self._proxy.clear()

    def _inject_single_faults(self) -> None:
        for fault, method in SINGLE_REQUEST_FAULTS:
            share = self._frequency.share / len(SINGLE_REQUEST_FAULTS)
            self._proxy.inject(fault, method=method, probability=share)
