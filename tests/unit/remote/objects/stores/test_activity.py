"""Requests and bytes are counted by topic and kind; outages begin and end with the calls of a store."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.s3.fault_proxy import FaultProxy, server_error
from tests.support.s3.server import S3Server
from tests.support.tier.object_stores import MemoryStore
from tests.support.tier.sealed_segments import make_segment
from tests.support.tier.settings import manager_settings, remote_settings
from tidelog.remote.objects.config import storage_manager_from_config
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.stores.activity import ObservedStore, StoreActivity, Traffic
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.storage_manager import (
    RemoteResourceNotFound,
    RemoteStorageError,
    StoreUnavailable,
)
from tidelog.remote.tasks.outages import StoreOutages

PATH = "tides-AAAAAAAAAAAAAAAAAAAAAQ/3/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAg"
LOG, MANIFEST = f"tier/{PATH}.log", f"tier/{PATH}.rsm-manifest"
MIB = 1 << 20
QUICK = {"s3.api.call.attempts": "2", "s3.api.call.timeout": "3000", "s3.connect.timeout": "500"}


class StoreFixture:
    """A store, what was recorded about it, and its outages."""

    def __init__(self, store: ObjectStore, *, calls_are_requests: bool = True) -> None:
        self.outages = StoreOutages.create(remote_settings(), ManualClock(), Random(1))
        self.activity = StoreActivity(self.outages.copies, self.outages.reads, self.outages.deletions)
        self.store = ObservedStore(store, self.activity, "tier/", calls_are_requests=calls_are_requests)

    def traffic(self, topic: str = "tides") -> dict[str, Traffic]:
        return {
            kind.value: traffic for (name, kind), traffic in self.activity.traffic().items() if name == topic
        }


def test_calls_are_counted_by_topic_and_kind() -> None:
    observed = StoreFixture(MemoryStore())
    store = observed.store
    store.put(LOG, io.BytesIO(bytes(2500)), 2500)
    store.put(MANIFEST, b"{}")
    with closing(store.get(LOG, 100, 599)) as stream:
        assert len(stream.read(200)) == 200
        assert len(stream.read()) == 300
    assert store.size(LOG) == 2500
    assert len(list(store.list("tier/"))) == 2
    store.delete([MANIFEST, LOG])
    store.put("other", b"123")
    assert observed.traffic() == {
        "PUT": Traffic(2, 2502),
        "GET": Traffic(1, 500),
        "HEAD": Traffic(1, 0),
        "DELETE": Traffic(1, 0),
    }
    assert observed.traffic("") == {"LIST": Traffic(1, 0), "PUT": Traffic(1, 3)}


class BrokenStore(MemoryStore):
    """Raises `error` from every call."""

    error: RemoteStorageError | None = None

    def _note(self, call: object) -> None:
        if self.error is not None:
            raise self.error


def test_an_outage_begins_and_ends_for_the_kind_of_work_that_fails() -> None:
    inner = BrokenStore()
    observed = StoreFixture(inner)
    store, outages = observed.store, observed.outages
    inner.error = StoreUnavailable("AccessDenied")
    with pytest.raises(StoreUnavailable):
        store.put(LOG, b"1")
    assert outages.copies.status is not None and outages.copies.status.cause == "AccessDenied"
    assert outages.reads.status is outages.deletions.status is None
    with pytest.raises(StoreUnavailable):
        store.delete([LOG])
    assert outages.deletions.status is not None
    inner.error = None
    with pytest.raises(RemoteResourceNotFound):
        store.get(LOG)
    assert outages.copies.status is not None
    store.put(LOG, b"1")
    store.delete([LOG])
    assert outages.copies.status is outages.deletions.status is None


def test_an_error_of_one_object_is_no_outage() -> None:
    inner = BrokenStore()
    observed = StoreFixture(inner)
    inner.error = RemoteStorageError("the name is too long")
    with pytest.raises(RemoteStorageError):
        observed.store.put(LOG, b"1")
    assert observed.outages.copies.status is None


def test_calls_that_end_because_the_store_is_closed_are_no_outage() -> None:
    inner = BrokenStore()
    observed = StoreFixture(inner)
    observed.store.close()
    inner.error = StoreUnavailable("the connection was closed")
    with pytest.raises(StoreUnavailable):
        observed.store.put(LOG, b"1")
    assert observed.outages.copies.status is None


def test_the_probe_reads_an_object_that_does_not_exist() -> None:
    inner = BrokenStore()
    manager = ObjectStorageManager(inner, manager_settings(chunk_size=10))
    manager.probe()
    inner.error = StoreUnavailable("InvalidAccessKeyId")
    with pytest.raises(StoreUnavailable, match="InvalidAccessKeyId"):
        manager.probe()
    manager.close()


@pytest.fixture
def observed_s3(
    s3: S3Server, bucket: str, proxy: FaultProxy
) -> Iterator[tuple[ObjectStorageManager, StoreFixture]]:
    observed = StoreFixture(MemoryStore())
    values = {
        f"storage.{key}": text
        for key, text in {**s3.config(bucket, endpoint=proxy.endpoint), **QUICK}.items()
    }
    values |= {"storage.backend.class": "s3", "key.prefix": "tier/"}
    manager = storage_manager_from_config(values, activity=observed.activity)
    yield manager, observed
    proxy.clear()
    manager.close()


def test_every_http_request_to_s3_is_counted(
    observed_s3: tuple[ObjectStorageManager, StoreFixture], proxy: FaultProxy
) -> None:
    manager, observed = observed_s3
    store = manager.store
    size = 60 * MIB  # three parts of 25 MiB and the start and the end of the upload
    store.put(LOG, io.BytesIO(bytes(size)), size)
    assert observed.traffic()["PUT"] == Traffic(5, size)
    proxy.inject(server_error(), times=1)
    with closing(store.get(LOG, 0, 999)) as stream:
        stream.read()
    assert observed.traffic()["GET"] == Traffic(2, 1000)


def test_wrong_settings_of_s3_are_an_outage_from_the_probe_on(
    s3: S3Server, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    observed = StoreFixture(MemoryStore())
    values = {f"storage.{key}": text for key, text in s3.config("no-such-bucket-of-tidelog").items()}
    manager = storage_manager_from_config(
        {**values, "storage.backend.class": "s3"}, activity=observed.activity
    )
    with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
        manager.probe()
    assert "NoSuchBucket" in caplog.text
    assert len(caplog.records) == 1
    manager.close()


def test_a_copy_with_confirmed_checksums_is_verified_by_one_head(
    observed_s3: tuple[ObjectStorageManager, StoreFixture], proxy: FaultProxy, tmp_path: Path
) -> None:
    manager, observed = observed_s3
    segment = make_segment(tmp_path, b"x" * 1000)
    manager.copy_log_segment_data(segment.metadata, segment.files)
    topic = segment.metadata.topic_id_partition.topic
    requests = {kind: traffic.requests for kind, traffic in observed.traffic(topic).items()}
    assert requests == {"PUT": 3, "HEAD": 1}
    with closing(manager.fetch_log_segment(segment.metadata, 0)) as stream:
        assert stream.read() == segment.log
