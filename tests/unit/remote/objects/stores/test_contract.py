"""The contract of object stores: one suite for all adapters.

With `TIDELOG_S3_ENDPOINT` the S3 part runs against any server (tests/support/s3/server.py).
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.remote.objects.stores.port import InvalidRange, ObjectInfo, ObjectStore
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError

SEGMENT_KEY = "prefix/topic-AAAAAAAAAAAAAAAAAAAAAA/7/00000000000000000000-BBBBBBBBBBBBBBBBBBBBBB.log"
MIB = 1024 * 1024


class ShortReads:
    """A source that returns fewer bytes than requested."""

    def __init__(self, content: bytes, at_most: int = 1000) -> None:
        self._stream = io.BytesIO(content)
        self._at_most = at_most

    def read(self, size: int, /) -> bytes:
        return self._stream.read(min(size, self._at_most))


def all_of(store: ObjectStore, key: str) -> bytes:
    stream = store.get(key)
    try:
        return stream.read()
    finally:
        stream.close()


def keys_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(info.key for info in store.list(prefix))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO, ShortReads])
@pytest.mark.parametrize("says_size", [True, False])
def test_get_returns_what_put_stored(store: ObjectStore, wrap: type, says_size: bool) -> None:
    content = Random(1).randbytes(70_000)
    store.put(SEGMENT_KEY, wrap(content), len(content) if says_size else None)
    assert all_of(store, SEGMENT_KEY) == content
    assert store.size(SEGMENT_KEY) == len(content)


@pytest.mark.parametrize("wrap", [bytes, io.BytesIO])
@pytest.mark.parametrize("size", [5 * MIB - 1, 5 * MIB, 12 * MIB + 3, 50 * MIB + 1])
def test_large_objects_round_trip(store: ObjectStore, wrap: type, size: int) -> None:
    content = Random(size).randbytes(size)
    store.put("large", wrap(content), size)
    assert store.size("large") == size
    assert all_of(store, "large") == content
    assert store.get("large", 5 * MIB - 10, 5 * MIB + 10).read() == content[5 * MIB - 10 : 5 * MIB + 11]


@pytest.mark.parametrize("says_size", [True, False])
def test_an_empty_object_can_be_stored(store: ObjectStore, says_size: bool) -> None:
    store.put("empty", io.BytesIO(b""), 0 if says_size else None)
    assert all_of(store, "empty") == b""
    assert store.size("empty") == 0
    assert list(store.list("")) == [ObjectInfo("empty", 0)]
    with pytest.raises(InvalidRange):
        store.get("empty", 0, 10)


def test_ranges_are_inclusive_and_end_with_the_object(store: ObjectStore) -> None:
    store.put("digits", b"0123456789", 10)
    assert store.get("digits", 2, 4).read() == b"234"
    assert store.get("digits", 0, 0).read() == b"0"
    assert store.get("digits", 9, 9).read() == b"9"
    assert store.get("digits", 7).read() == b"789"
    assert store.get("digits", None, 3).read() == b"0123"
    assert store.get("digits", 7, 1000).read() == b"789"


def test_invalid_ranges_are_refused(store: ObjectStore) -> None:
    store.put("digits", b"0123456789", 10)
    for start, end in ((5, 4), (-1, 3), (None, -1)):
        with pytest.raises(ValueError):
            store.get("digits", start, end)
    for start, end in ((10, None), (10, 12), (99, None)):
        with pytest.raises(InvalidRange, match="'digits'"):
            store.get("digits", start, end)


def test_a_stream_returns_the_requested_sizes_and_then_nothing(store: ObjectStore) -> None:
    content = Random(2).randbytes(100_000)
    store.put("a", content, len(content))
    stream = store.get("a", 10, 90_009)
    assert stream.read(0) == b""
    assert stream.read(7) == content[10:17]
    assert stream.read(80_000) == content[17:80_017]
    assert stream.read(80_000) == content[80_017:90_010]
    assert stream.read(1) == b""
    assert stream.read() == b""
    stream.close()
    stream.close()


def test_a_stream_closed_early_reads_no_more(store: ObjectStore) -> None:
    store.put("a", bytes(3 * MIB), 3 * MIB)
    stream = store.get("a")
    stream.read(10)
    stream.close()
    with pytest.raises(RemoteStorageError):
        stream.read(2 * MIB)


def test_a_missing_object_is_not_found(store: ObjectStore) -> None:
    store.put("there/is", b"x", 1)
    for key in ("nothing", "there", "there/is/not", "there/isnt"):
        with pytest.raises(RemoteResourceNotFound, match=f"'{key}'"):
            store.get(key)
        with pytest.raises(RemoteResourceNotFound, match=f"'{key}'"):
            store.get(key, 0, 10)
        with pytest.raises(RemoteResourceNotFound, match=f"'{key}'"):
            store.size(key)


def test_put_replaces_an_existing_object(store: ObjectStore) -> None:
    store.put("a/b", b"long content", 12)
    store.put("a/b", b"short", 5)
    assert all_of(store, "a/b") == b"short"
    assert keys_of(store) == ["a/b"]


@pytest.mark.parametrize("announced", [0, 9, 11, 6 * MIB])
def test_a_source_of_another_size_writes_nothing(store: ObjectStore, announced: int) -> None:
    for content in (b"0123456789", io.BytesIO(b"0123456789")):
        with pytest.raises(RemoteStorageError, match="'a'"):
            store.put("a", content, announced)
    assert keys_of(store) == []


@pytest.mark.parametrize("good_bytes", [10, 6 * MIB])
@pytest.mark.parametrize("error", [RuntimeError, OSError])
def test_a_failing_source_writes_nothing_and_its_error_is_raised(
    store: ObjectStore, good_bytes: int, error: type[Exception]
) -> None:
    class FailingReads(ShortReads):
        def read(self, size: int, /) -> bytes:
            piece = super().read(size)
            if not piece:
                raise error("the disk has failed")
            return piece

    with pytest.raises(error, match="the disk has failed") as raised:
        store.put("a", FailingReads(bytes(good_bytes), at_most=MIB), None)
    assert not isinstance(raised.value, RemoteStorageError)
    assert keys_of(store) == []
    with pytest.raises(RemoteResourceNotFound):
        store.size("a")


def test_delete_removes_existing_objects_and_ignores_missing_ones(store: ObjectStore) -> None:
    for key in ("t/0/a.log", "t/0/a.indexes", "t/1/b.log"):
        store.put(key, b"x", 1)
    store.delete(["t/0/a.log", "t/0/never.was", "x/y/z", "t/0/a.indexes"])
    assert keys_of(store) == ["t/1/b.log"]
    store.delete(["t/0/a.log"])
    store.delete([])
    store.delete(iter(["t/1/b.log"]))
    assert keys_of(store) == []
    store.put("t", b"a file where a directory was", 28)
    assert keys_of(store) == ["t"]


def test_a_listing_begins_after_a_key(store: ObjectStore) -> None:
    for key in ("a/1", "a/10", "a/2", "a/3/x", "b"):
        store.put(key, b"")
    assert sorted(info.key for info in store.list("a/", "a/1")) == ["a/10", "a/2", "a/3/x"]
    assert sorted(info.key for info in store.list("a/", "a/2x")) == ["a/3/x"]
    assert list(store.list("a/", "a/9")) == []
    assert [info.key for info in store.list("", "a/9")] == ["b"]


def test_a_listing_shows_keys_by_prefix_with_sizes(store: ObjectStore) -> None:
    for number, key in enumerate(("a-1/0/x", "a-1/0/y", "a-1/1/x", "a-10/0/x", "b")):
        store.put(key, bytes(number), number)
    assert sorted(store.list("a-1/")) == [("a-1/0/x", 0), ("a-1/0/y", 1), ("a-1/1/x", 2)]
    assert keys_of(store, "a-1") == ["a-1/0/x", "a-1/0/y", "a-1/1/x", "a-10/0/x"]
    assert keys_of(store, "a-1/0/x") == ["a-1/0/x"]
    assert keys_of(store, "a-1/0/x/") == []
    assert keys_of(store, "nothing/there") == []
    assert keys_of(store) == ["a-1/0/x", "a-1/0/y", "a-1/1/x", "a-10/0/x", "b"]


def test_more_than_one_page_is_listed_and_deleted(store: ObjectStore) -> None:
    keys = [f"many/{number:04}" for number in range(1001)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"x", 1), keys))
    assert keys_of(store, "many/") == keys
    store.delete([*keys[:1000], "many/none", keys[1000]])
    assert keys_of(store) == []


@pytest.mark.parametrize("key", ["a key", "ümläut/日本", "a+b&c=d?e#f%20", "per%2Fcent", "q'u\"o<t>e"])
def test_keys_may_have_any_printable_character(store: ObjectStore, key: str) -> None:
    store.put(key, b"x", 1)
    assert all_of(store, key) == b"x"
    assert keys_of(store) == [key]
    store.delete([key])
    assert keys_of(store) == []


@pytest.mark.parametrize("key", ["", "a\nb", "a\0b", "k" * 1025])
def test_an_invalid_key_is_refused_in_one_line(store: ObjectStore, key: str) -> None:
    for call in (store.get, store.size, lambda key: store.put(key, b"", 0), lambda key: store.delete([key])):
        with pytest.raises(RemoteStorageError) as raised:
            call(key)
        assert "\n" not in str(raised.value)
        assert not isinstance(raised.value, RemoteResourceNotFound)


def test_concurrent_put_get_and_delete(store: ObjectStore) -> None:
    def use_store(number: int) -> None:
        random = Random(number)
        for turn in range(15):
            key = f"shared/{turn % 3}/{number}"
            content = random.randbytes(random.randrange(1, 5000))
            store.put(key, io.BytesIO(content), len(content))
            start = random.randrange(len(content))
            assert store.get(key, start).read() == content[start:]
            store.delete([key])
            with pytest.raises(RemoteResourceNotFound):
                store.get(key)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use_store, range(8)))
    assert keys_of(store) == []


def test_concurrent_reads_of_a_replaced_key_see_a_complete_version(store: ObjectStore) -> None:
    versions = [bytes([version]) * (1000 + version) for version in range(40)]
    store.put("key", versions[0], 1000)

    def read() -> None:
        for _ in range(30):
            content = all_of(store, "key")
            assert content == versions[content[0]]

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for version in versions:
            store.put("key", version, len(version))
        for reader in readers:
            reader.result()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(min_size=1, max_size=5000), data=st.data())
def test_any_range_of_an_object_is_its_slice(store: ObjectStore, content: bytes, data: st.DataObject) -> None:
    store.put("property", content, len(content))
    start = data.draw(st.none() | st.integers(0, len(content) - 1))
    end = data.draw(st.none() | st.integers(start or 0, len(content) + 100))
    expected = content[start or 0 :] if end is None else content[start or 0 : end + 1]
    stream = store.get("property", start, end)
    first = data.draw(st.integers(0, len(content)))
    assert stream.read(first) + stream.read() == expected
    stream.close()
