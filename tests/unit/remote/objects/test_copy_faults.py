"""Every call to the store fails, one after the other, in every way; readers never see a partial segment.

After any failure of a copy, the segment is either completely readable or absent for readers. A deletion
that is repeated until it succeeds leaves no object.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tier.object_stores import FailingStore, FailureKind, MemoryStore
from tests.support.tier.sealed_segments import StoredSegment, make_segment
from tests.support.tier.segment_configs import compressible, key_pair
from tests.support.tier.settings import manager_settings
from tidelog.remote.objects.layout.encryption import KeyRing
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.stores.port import Content
from tidelog.remote.ports.storage_manager import (
    IndexType,
    RemoteResourceNotFound,
    RemoteStorageError,
    StoreUnavailable,
)

SETTINGS = {
    "plain": manager_settings(chunk_size=500),
    "transformed": manager_settings(
        chunk_size=500, compression=True, key_ring=KeyRing("key1", {"key1": key_pair()})
    ),
}
PUTS_OF_A_COPY = 3
CALLS_OF_A_COPY = PUTS_OF_A_COPY + 3  # two sizes and the manifest
CALLS_OF_A_CLEAN_UP = 3


@pytest.fixture
def segment(tmp_path: Path) -> StoredSegment:
    return make_segment(tmp_path, compressible(2345), with_transactions=True)


def read_all(manager: ObjectStorageManager, segment: StoredSegment) -> None:
    assert manager.fetch_log_segment(segment.metadata, 0).read() == segment.log
    for index_type in IndexType:
        assert manager.fetch_index(segment.metadata, index_type).read() == segment.indexes[index_type]


def manager_of(store: MemoryStore, kind: str) -> ObjectStorageManager:
    return ObjectStorageManager(store, SETTINGS[kind])


def check_readable_or_absent(store: MemoryStore, kind: str, segment: StoredSegment) -> bool:
    """Check that the segment is complete or absent for readers; return whether it is present."""
    copy_of_store = MemoryStore()
    copy_of_store.objects = dict(store.objects)
    try:
        read_all(manager_of(copy_of_store, kind), segment)
    except RemoteResourceNotFound:
        return False
    return True


def delete_until_done(store: FailingStore, kind: str, segment: StoredSegment) -> None:
    for _ in range(3 * CALLS_OF_A_CLEAN_UP):
        try:
            manager_of(store, kind).delete_log_segment_data(segment.metadata)
            return
        except RemoteStorageError:
            pass
    raise AssertionError("the deletion never succeeded")


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_number_of_injected_faults_covers_every_call_of_a_copy(kind: str, segment: StoredSegment) -> None:
    store = FailingStore(lambda number: None)
    manager_of(store, kind).copy_log_segment_data(segment.metadata, segment.files)
    assert store.counted == CALLS_OF_A_COPY
    manager_of(store, kind).delete_log_segment_data(segment.metadata)
    assert store.counted == CALLS_OF_A_COPY + CALLS_OF_A_CLEAN_UP


@pytest.mark.parametrize("clean_up_fails", [None, *range(CALLS_OF_A_CLEAN_UP)])
@pytest.mark.parametrize("how", FailureKind)
@pytest.mark.parametrize("call", range(CALLS_OF_A_COPY))
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_copy_that_fails_at_any_call_is_not_readable(
    kind: str, call: int, how: FailureKind, clean_up_fails: int | None, segment: StoredSegment
) -> None:
    """`clean_up_fails` is the number of the call at which the clean-up of the failed copy fails, too."""
    second = None if clean_up_fails is None else call + 1 + clean_up_fails
    store = FailingStore(lambda number: how if number in (call, second) else None)
    manager = manager_of(store, kind)
    is_cut = how is FailureKind.SHORT and call >= PUTS_OF_A_COPY
    with pytest.raises(RemoteStorageError, match="bytes" if is_cut else "made to fail"):
        manager.copy_log_segment_data(segment.metadata, segment.files)
    if clean_up_fails is None:
        assert store.objects == {}
    check_readable_or_absent(store, kind, segment)
    delete_until_done(store, kind, segment)
    assert store.objects == {}


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_segment_with_a_manifest_is_complete_after_a_lost_response(
    kind: str, segment: StoredSegment
) -> None:
    last = PUTS_OF_A_COPY - 1
    store = FailingStore(
        lambda number: FailureKind.AFTER if number == last else FailureKind.BEFORE if number > last else None
    )
    with pytest.raises(RemoteStorageError):
        manager_of(store, kind).copy_log_segment_data(segment.metadata, segment.files)
    assert check_readable_or_absent(store, kind, segment)


class LateStore(MemoryStore):
    """Does not respond to the put with a number (from 0), which `execute_late` executes."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._remaining = number
        self._late: dict[str, bytes] = {}

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Store an object, or keep it back."""
        self._remaining -= 1
        if self._remaining != -1:
            super().put(key, content, size)
            return
        before = self.objects.copy()
        super().put(key, content, size)
        self._late = {key: self.objects[key]}
        self.objects = before
        raise StoreUnavailable(f"{key}: no response")

    def execute_late(self) -> None:
        """Execute the put whose outcome was unknown."""
        assert self._late
        self.objects.update(self._late)


@pytest.mark.parametrize("by_other_process", [False, True], ids=["same process", "other process"])
@pytest.mark.parametrize("put", range(PUTS_OF_A_COPY))
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_put_that_timed_out_and_is_executed_after_the_next_attempt_leaves_the_segment_readable(
    kind: str, put: int, by_other_process: bool, segment: StoredSegment
) -> None:
    """Another process writes the same objects again in a repair, or in a restore that is repeated."""
    store = LateStore(put)
    manager = manager_of(store, kind)
    with pytest.raises(StoreUnavailable):
        manager.copy_log_segment_data(segment.metadata, segment.files)
    if by_other_process:
        manager = manager_of(store, kind)
    manager.copy_log_segment_data(segment.metadata, segment.files)
    store.execute_late()
    read_all(manager_of(store, kind), segment)


@pytest.mark.parametrize("how", FailureKind)
@pytest.mark.parametrize("call", range(CALLS_OF_A_CLEAN_UP))
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_deletion_that_fails_at_any_call_leaves_a_complete_or_deleted_segment(
    kind: str, call: int, how: FailureKind, segment: StoredSegment
) -> None:
    at = CALLS_OF_A_COPY + call
    store = FailingStore(lambda number: how if number == at else None)
    manager = manager_of(store, kind)
    manager.copy_log_segment_data(segment.metadata, segment.files)
    with pytest.raises(RemoteStorageError):
        manager.delete_log_segment_data(segment.metadata)
    check_readable_or_absent(store, kind, segment)
    delete_until_done(store, kind, segment)
    assert store.objects == {}


@pytest.mark.parametrize("how", FailureKind)
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_read_that_fails_at_any_call_raises_and_the_next_one_succeeds(
    kind: str, how: FailureKind, segment: StoredSegment
) -> None:
    failing_at = -1
    store = FailingStore(lambda number: how if number == failing_at else None)
    manager_of(store, kind).copy_log_segment_data(segment.metadata, segment.files)
    calls = store.counted
    read_all(manager_of(store, kind), segment)
    of_a_read = store.counted - calls
    assert of_a_read == 3
    for number in range(of_a_read):
        failing_at = store.counted + number
        manager = manager_of(store, kind)
        with pytest.raises(RemoteStorageError):
            read_all(manager, segment)
        read_all(manager, segment)
