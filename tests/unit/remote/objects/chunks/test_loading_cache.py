"""Manifests and indexes are loaded once for all concurrent callers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.tier.settings import cache_settings
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.remote.objects.chunks.loading_cache import LoadingCache
from tidelog.remote.ports.storage_manager import RemoteStorageError


def make_cache(size: int = 100, get_timeout_ms: int = 10_000) -> LoadingCache[str, bytes]:
    return LoadingCache(cache_settings(size=size, get_timeout_ms=get_timeout_ms), len)


class Loader:
    """A loader that waits for its gate and counts the loads."""

    def __init__(self, result: bytes | Exception) -> None:
        self.result = result
        self.loads = 0
        self.gate = threading.Event()

    def __call__(self) -> bytes:
        self.loads += 1
        assert self.gate.wait(TIMEOUT_S)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_concurrent_readers_share_one_load() -> None:
    cache, loader = make_cache(), Loader(b"value")
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(cache.get, "key", loader) for _ in range(8)]
        wait_until(lambda: loader.loads)
        loader.gate.set()
        assert [one.result(TIMEOUT_S) for one in futures] == [b"value"] * 8
    assert cache.get("key", loader) == b"value"
    assert loader.loads == 1


def test_a_failed_load_is_raised_in_all_waiting_calls_and_not_cached() -> None:
    cache, loader = make_cache(), Loader(RemoteStorageError("gone"))
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(cache.get, "key", loader) for _ in range(4)]
        wait_until(lambda: loader.loads)
        loader.gate.set()
        for one in futures:
            with pytest.raises(RemoteStorageError, match="gone"):
                one.result(TIMEOUT_S)
    loader.result = b"value"
    assert cache.get("key", loader) == b"value"


def test_a_request_that_waits_too_long_times_out() -> None:
    cache, loader = make_cache(get_timeout_ms=1), Loader(b"value")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(cache.get, "key", loader)
        wait_until(lambda: loader.loads)
        with pytest.raises(RemoteStorageError, match="key was not loaded within 1 ms"):
            cache.get("key", loader)
        loader.gate.set()
        assert future.result(TIMEOUT_S) == b"value"


def test_an_entry_invalidated_during_its_load_is_not_kept() -> None:
    cache, loader = make_cache(), Loader(b"value")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(cache.get, "key", loader)
        wait_until(lambda: loader.loads)
        cache.forget("key")
        loader.gate.set()
        assert future.result(TIMEOUT_S) == b"value"
    assert cache.get("key", loader) == b"value"
    assert loader.loads == 2
