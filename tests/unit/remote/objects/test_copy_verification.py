"""A store that acknowledges an object without storing it fails the copy, so that the local segment stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tier.object_stores import ForgetfulStore, MemoryStore
from tests.support.tier.sealed_segments import StoredSegment, make_segment
from tests.support.tier.segment_configs import compressible, key_pair
from tests.support.tier.settings import manager_settings
from tidelog.remote.objects.layout.encryption import KeyRing
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.objects.verification import Verification
from tidelog.remote.ports.storage_manager import RemoteStorageError

PLAIN = manager_settings(chunk_size=500)
TRANSFORMED = replace(PLAIN, compression=True, key_ring=KeyRing("key1", {"key1": key_pair()}))
SUFFIXES = (".log", ".indexes", ".rsm-manifest")


def without_data(data: bytes) -> bytes | None:
    return None


def without_last_byte(data: bytes) -> bytes | None:
    return data[:-1]


def flip_byte(data: bytes) -> bytes | None:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.fixture
def segment(tmp_path: Path) -> StoredSegment:
    return make_segment(tmp_path, compressible(2345), with_transactions=True)


def copy_segment(store: MemoryStore, settings: ManagerSettings, segment: StoredSegment) -> None:
    ObjectStorageManager(store, settings).copy_log_segment_data(segment.metadata, segment.files)


@pytest.mark.parametrize("settings", [PLAIN, TRANSFORMED], ids=["plain", "transformed"])
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("keeps", [without_data, without_last_byte])
def test_a_copy_fails_when_the_store_silently_loses_or_truncates_an_object(
    settings: ManagerSettings,
    suffix: str,
    keeps: Callable[[bytes], bytes | None],
    segment: StoredSegment,
) -> None:
    store = ForgetfulStore(suffix, keeps)
    with pytest.raises(RemoteStorageError, match=suffix.replace(".", r"\.")):
        copy_segment(store, settings, segment)
    assert store.objects == {}


@pytest.mark.parametrize("settings", [PLAIN, TRANSFORMED], ids=["plain", "transformed"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_content_verification_detects_a_silently_changed_byte(
    settings: ManagerSettings, suffix: str, segment: StoredSegment
) -> None:
    store = ForgetfulStore(suffix, flip_byte)
    with pytest.raises(RemoteStorageError):
        copy_segment(store, replace(settings, verification=Verification.CONTENTS), segment)
    assert store.objects == {}


@pytest.mark.parametrize("settings", [PLAIN, TRANSFORMED], ids=["plain", "transformed"])
def test_a_correct_store_passes_every_verification(settings: ManagerSettings, segment: StoredSegment) -> None:
    for verification in Verification:
        store = MemoryStore()
        copy_segment(store, replace(settings, verification=verification), segment)
        assert len(store.objects) == len(SUFFIXES)


def test_size_verification_needs_no_get_of_the_log(segment: StoredSegment) -> None:
    store = MemoryStore()
    copy_segment(store, PLAIN, segment)
    assert [call.key.rpartition(".")[2] for call in store.calls if call.name == "get"] == ["rsm-manifest"]
