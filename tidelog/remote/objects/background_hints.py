"""Runs hints about segments that will be read soon, in a few threads of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from tidelog.base.threads import Threads
from tidelog.remote.ports.storage_manager import RemoteStorageError

_log = logging.getLogger(__name__)

_THREADS: Final = 4
"""Each thread fetches the manifest and the indexes of one segment, one request after the other."""
_PENDING_MAX: Final = 64
"""The maximum number of pending hints about segments that will be read; further hints are dropped."""


class BackgroundHints:
    """Hints never block, never fail, and may be dropped. To be used from any thread."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads.executor(_THREADS, "tier-hints")
        self._pending: set[str] = set()
        self._lock = threading.Lock()

    def submit(self, key: str, action: Callable[[], object]) -> None:
        """Run `action` in the background unless one with the same `key` is pending."""
        with self._lock:
            if key in self._pending or len(self._pending) >= _PENDING_MAX:
                return
            self._pending.add(key)
        try:
            self._threads.submit(self._run, key, action)
        except RuntimeError:  # closed
            self._pending.discard(key)

    def _run(self, key: str, action: Callable[[], object]) -> None:
        try:
            action()
        except RemoteStorageError as error:
            _log.debug("Cannot read ahead in %s: %s", key, error)
        finally:
            with self._lock:
                self._pending.discard(key)

    def close(self) -> None:
        """Drop the pending hints, and wait for the running ones."""
        self._threads.shutdown(wait=True, cancel_futures=True)
