"""Faults of the object store: continuous faults of single requests, and outages from time to time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.s3.fault_proxy import (
    Fault,
    FaultProxy,
    lost_answer,
    reset,
    server_error,
    silence,
    slow,
    slow_down,
    truncate,
)

SINGLE: Final[tuple[tuple[Fault, str | None], ...]] = (
    (server_error(), None),
    (server_error(503, "ServiceUnavailable"), None),
    (slow_down(), None),
    (reset(), None),
    (lost_answer(), None),
    (truncate(keep=0), "GET"),
    (truncate(keep=1000), "GET"),
    (slow(bytes_per_s=2_000), "GET"),
    (silence(), None),
)
"""Faults of single requests, and the affected methods."""


@dataclass(frozen=True, slots=True)
class Weather:
    """The frequency of faults: the share of affected requests, and long outages."""

    share: float = 0.12
    outage_every_s: float = 20.0
    outage_s: float = 8.0


class Storm(threading.Thread):
    """Makes the store unavailable from time to time, alternately by refused connections and by silence."""

    def __init__(self, proxy: FaultProxy, weather: Weather, seed: int) -> None:
        super().__init__(name="storm", daemon=True)
        self.outages = 0
        self._proxy = proxy
        self._weather = weather
        self._random = Random(seed)
        self._is_over = threading.Event()

    def run(self) -> None:
        """Run until `end`."""
        self._drizzle()
        while not self._is_over.wait(self._weather.outage_every_s * self._random.uniform(0.6, 1.4)):
            self.outages += 1
            if self.outages % 2:
                self._proxy.go_down()
                self._is_over.wait(self._weather.outage_s)
                self._proxy.come_back()
            else:
                self._proxy.clear()
                self._proxy.inject(silence())
                self._is_over.wait(self._weather.outage_s)
                self._proxy.clear()
                self._drizzle()

    def end(self) -> None:
        """End all faults."""
        self._is_over.set()
        self.join()
        self._proxy.clear()

    def _drizzle(self) -> None:
        for fault, method in SINGLE:
            share = self._weather.share / len(SINGLE)
            self._proxy.inject(fault, method=method, probability=share)
