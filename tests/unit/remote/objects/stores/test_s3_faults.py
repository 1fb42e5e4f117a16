"""The S3 adapter behind a fault proxy: correct bytes or RemoteStorageError, always in time."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import NamedTuple

import pytest

from tests.support.s3.fault_proxy import (
    Fault,
    FaultProxy,
    lost_response,
    reset,
    response_fault,
    server_error,
    silence,
    slow_down,
    slow_response,
    truncate,
)
from tests.support.s3.server import S3Server
from tests.support.time_limits import result_within
from tests.support.waiting import TIMEOUT_S, wait_until, wait_until_passes
from tests.unit.remote.objects.stores.conftest import NewStore
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError, StoreUnavailable

MIB = 1024 * 1024
SHORT_TIMEOUTS = {
    "s3.api.call.timeout": "1500",
    "s3.api.call.attempt.timeout": "700",
    "s3.read.timeout": "300",
    "s3.connect.timeout": "300",
    "s3.api.call.attempts": "4",
    "s3.multipart.upload.part.size": str(5 * MIB),
}
LONG_TIMEOUTS = {
    **SHORT_TIMEOUTS,
    "s3.api.call.timeout": "60000",
    "s3.api.call.attempt.timeout": "3000",
    "s3.api.call.attempts": "8",
}
"""Enough attempts for a fault, and for some that time out because the machine is busy."""
NO_TIMEOUTS = {
    **SHORT_TIMEOUTS,
    "s3.api.call.timeout": "60000",
    "s3.api.call.attempt.timeout": "60000",
    "s3.read.timeout": "60000",
    "s3.connect.timeout": "60000",
}
"""For faults that are detected at once: no timeout may expire, even on a busy machine."""
LARGE = Random(5).randbytes(11 * MIB)
SMALL = Random(6).randbytes(5000)

FAULTS = {
    "internal error": server_error(),
    "slow down": slow_down(),
    "reset": reset(),
    "lost response": lost_response(),
    "silence": silence(),
    "body gone": truncate(keep=0),
    "body torn": truncate(keep=100),
    "drip": slow_response(bytes_per_s=100),
}


class Operation(NamedTuple):
    run: Callable[[ObjectStore], object]
    result: object


OPERATIONS = {
    "put": Operation(lambda store: store.put("new/small", SMALL, len(SMALL)), True),
    "put in parts": Operation(lambda store: store.put("new/large", io.BytesIO(LARGE), len(LARGE)), True),
    "get": Operation(lambda store: store.get("old").read(), SMALL),
    "get a range": Operation(lambda store: store.get("old", 10, 4000).read(), SMALL[10:4001]),
    "size": Operation(lambda store: store.size("old"), len(SMALL)),
    "list": Operation(lambda store: [tuple(info) for info in store.list("ol")], [("old", len(SMALL))]),
    "delete": Operation(lambda store: store.delete(["going", "never"]), None),
}


def keys_of(store: ObjectStore) -> list[str]:
    return sorted(info.key for info in store.list(""))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_temporary_fault_is_retried(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore, fault: str, name: str
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    learn_requests(store)
    operation = OPERATIONS[name]
    rule = proxy.inject(FAULTS[fault], times=1)
    assert result_within(lambda: operation.run(store)) == operation.result
    assert rule.hits == 1
    assert s3.uploads(bucket) == []
    if name.startswith("put"):
        key, content = ("new/large", LARGE) if "parts" in name else ("new/small", SMALL)
        assert store.get(key).read() == content


def learn_requests(store: ObjectStore) -> None:
    """Put and read "old", so that the store builds further requests of single objects itself."""
    store.put("old", SMALL)
    assert store.size("old") == len(SMALL)
    assert store.get("old").read() == SMALL


def outcome_of(store: ObjectStore, operation: Operation) -> object:
    try:
        return operation.run(store)
    except RemoteStorageError as error:
        return error


def put_afterwards(store: ObjectStore) -> None:
    store.put("afterwards", b"x")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_under_a_permanent_fault_every_call_ends_with_the_correct_result_or_an_error(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore, fault: str, is_first: bool
) -> None:
    store, steady = new_proxied_store(SHORT_TIMEOUTS), new_proxied_store(NO_TIMEOUTS)
    if is_first:
        steady.put("old", SMALL)
    else:
        wait_until_passes(partial(learn_requests, store), tolerated=(StoreUnavailable,))
    steady.put("going", SMALL)
    proxy.inject(FAULTS[fault])
    with ThreadPoolExecutor(len(OPERATIONS)) as pool:
        running = [pool.submit(outcome_of, store, operation) for operation in OPERATIONS.values()]
        outcomes = [future.result(timeout=TIMEOUT_S) for future in running]
    for operation, outcome in zip(OPERATIONS.values(), outcomes, strict=True):
        if isinstance(outcome, RemoteStorageError):
            assert "\n" not in str(outcome)
            assert f"s3://{bucket}" in str(outcome)
            assert not isinstance(outcome, RemoteResourceNotFound)
        else:
            assert FAULTS[fault].reaches_server
            assert outcome == operation.result
    proxy.clear()
    # What could not be aborted is aborted by the next put of the same store.
    wait_until_passes(partial(put_afterwards, store), tolerated=(StoreUnavailable,))
    assert s3.uploads(bucket) == []
    for key, content in (("new/small", SMALL), ("new/large", LARGE)):
        if key in keys_of(steady):
            assert steady.get(key).read() == content


def test_calls_fail_during_an_outage_and_succeed_after_it(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(SHORT_TIMEOUTS)
    new_proxied_store(NO_TIMEOUTS).put("old", SMALL)
    proxy.stop_listening()
    for operation in OPERATIONS.values():
        with pytest.raises(RemoteStorageError, match="s3://") as raised:
            result_within(partial(operation.run, store))
        assert not isinstance(raised.value, RemoteResourceNotFound)
    proxy.resume_listening()
    for operation in OPERATIONS.values():

        def require_success(operation: Operation = operation) -> None:
            assert operation.run(store) == operation.result

        # The timeouts are short: a call may also fail because this process was not scheduled.
        wait_until_passes(require_success, tolerated=(StoreUnavailable,))


def test_a_truncated_body_is_continued_at_its_end(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    content = Random(7).randbytes(3 * MIB)
    store.put("a", content)
    proxy.inject(truncate(keep=MIB), method="GET", times=2)
    assert store.get("a", 5).read() == content[5:]
    ranges = [request.headers["range"] for request in proxy.recent_requests if request.method == "GET"]
    assert [int(text.removeprefix("bytes=").split("-")[0]) for text in ranges] == [5, 5 + MIB, 5 + 2 * MIB]


def test_an_object_replaced_between_two_responses_is_not_mixed(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    store.put("a", bytes(2 * MIB))
    proxy.inject(truncate(keep=MIB), method="GET", times=1)
    stream = store.get("a")
    assert stream.read(MIB) == bytes(MIB)
    store.put("a", b"\1" * (2 * MIB))
    with pytest.raises(RemoteStorageError, match="replaced"):
        stream.read(MIB)


def test_a_server_without_range_support_returns_no_wrong_bytes(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(NO_TIMEOUTS)
    store.put("a", SMALL)
    proxy.inject(response_fault(200, SMALL))
    with pytest.raises(RemoteStorageError, match="a range was requested"):
        store.get("a", 10, 20)
    assert store.get("a").read() == SMALL


def test_an_upload_with_a_lost_response_is_not_left_behind(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(NO_TIMEOUTS)
    proxy.inject(lost_response(), method="POST", matching=r"\?uploads", times=3)
    store.put("a", LARGE)
    assert store.get("a").read() == LARGE
    assert s3.uploads(bucket) == []


def test_an_upload_completed_without_response_is_recognized(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(NO_TIMEOUTS)
    proxy.inject(lost_response(), method="POST", matching=r"uploadId=", times=1)
    store.put("a", LARGE)
    assert store.get("a").read() == LARGE


def test_an_error_in_a_successful_completion_response_is_retried(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    rule = proxy.inject(server_error(200), method="POST", matching=r"uploadId=", times=2)
    store.put("a", LARGE)
    assert rule.hits == 2
    assert store.get("a").read() == LARGE
    assert s3.uploads(bucket) == []


def test_a_different_object_with_the_key_is_not_taken_for_the_failed_upload(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(NO_TIMEOUTS)
    store.put("a", bytes(len(LARGE)))
    proxy.inject(server_error(), method="POST", matching=r"uploadId=")
    with pytest.raises(RemoteStorageError):
        store.put("a", LARGE)
    assert s3.uploads(bucket) == []
    assert store.get("a").read() == bytes(len(LARGE))


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_multipart_upload_that_fails_at_any_part_is_aborted(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore, part: int
) -> None:
    store = new_proxied_store(NO_TIMEOUTS)
    proxy.inject(server_error(), method="PUT", matching=rf"partNumber={part}\b")
    with pytest.raises(RemoteStorageError, match="'a'"):
        store.put("a", LARGE)
    assert s3.uploads(bucket) == []
    assert keys_of(store) == []


def test_a_failed_abort_is_repeated_after_the_next_put(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(NO_TIMEOUTS)
    proxy.inject(server_error(), matching=r"uploadId=")
    with pytest.raises(RemoteStorageError):
        store.put("a", LARGE)
    assert s3.uploads(bucket) == ["a"]
    proxy.clear()
    store.put("b", b"x")
    assert s3.uploads(bucket) == []


DELETED = b"""<?xml version="1.0"?><DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</DeleteResult>"""
ERROR = b"<Error><Key>%s</Key><Code>%s</Code><Message>said the server</Message></Error>"


def test_keys_the_server_refuses_to_delete_are_reported_and_others_deleted(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    store.put("b", b"x")
    keys = [f"a{number}" for number in range(1000)] + ["b"]
    refused = DELETED % (ERROR % (b"a7", b"AccessDenied") + ERROR % (b"a8", b"NoSuchKey"))
    proxy.inject(response_fault(200, refused), method="POST", times=1)
    with pytest.raises(RemoteStorageError, match="1 of 1000 keys were rejected, 'a7': AccessDenied said the"):
        store.delete(keys)
    assert keys_of(store) == []


def test_keys_not_deleted_temporarily_are_deleted_by_a_retry(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    for key in "abc":
        store.put(key, b"x")
    proxy.inject(response_fault(200, DELETED % (ERROR % (b"b", b"SlowDown"))), method="POST", times=1)
    store.delete(["b"])
    assert keys_of(store) == ["a", "c"]


def test_a_forbidden_request_is_not_retried(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    rule = proxy.inject(server_error(403, "AccessDenied"))
    for operation in OPERATIONS.values():
        rule.hits = 0
        with pytest.raises(RemoteStorageError, match=r"AccessDenied|403") as raised:
            operation.run(store)
        assert rule.hits == 1
        assert not isinstance(raised.value, RemoteResourceNotFound)


@pytest.mark.parametrize("name", ["put", "put in parts"])
def test_a_server_that_rejects_checksums_gets_none_from_the_next_put_on(
    name: str, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    rule = proxy.inject(server_error(400, "InvalidArgument"), times=1)
    with pytest.raises(RemoteStorageError, match="InvalidArgument"):
        OPERATIONS[name].run(store)
    assert rule.hits == 1
    assert not OPERATIONS[name].run(store), "the server has confirmed nothing"
    assert keys_of(store) == [f"new/{'small' if name == 'put' else 'large'}"]


def test_a_checksum_that_does_not_match_is_an_error_and_checksums_continue(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store(LONG_TIMEOUTS)
    proxy.inject(server_error(400, "BadDigest"), times=1)
    with pytest.raises(RemoteStorageError, match="BadDigest"):
        OPERATIONS["put"].run(store)
    assert OPERATIONS["put"].run(store), "the server has confirmed the checksum"


def test_a_missing_bucket_is_an_error_and_not_a_missing_object(
    s3: S3Server, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store({"s3.bucket.name": "tidelog-test-no-such-bucket"})
    for name in ("put", "put in parts", "get", "list", "delete"):
        with pytest.raises(RemoteStorageError, match="NoSuchBucket") as raised:
            OPERATIONS[name].run(store)
        assert not isinstance(raised.value, RemoteResourceNotFound)


def test_close_ends_a_waiting_call(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store({**LONG_TIMEOUTS, "s3.read.timeout": "30000"})
    rule = proxy.inject(silence())
    outcome: list[Exception] = []

    def send_request() -> None:
        try:
            store.size("a")
        except RemoteStorageError as error:
            outcome.append(error)

    thread = threading.Thread(target=send_request)
    thread.start()
    wait_until(lambda: rule.hits == 1)
    result_within(store.close)
    thread.join(TIMEOUT_S)
    assert outcome


RANDOM_FAULTS: tuple[Fault, ...] = (
    server_error(),
    slow_down(),
    reset(),
    lost_response(),
    truncate(keep=700),
    truncate(keep=0),
    silence(),
)


@pytest.mark.parametrize("seed", [1, 2])
def test_under_random_faults_every_object_is_a_complete_version(
    s3: S3Server, bucket: str, proxy: FaultProxy, new_proxied_store: NewStore, seed: int
) -> None:
    random = Random(seed)
    store = new_proxied_store(SHORT_TIMEOUTS)
    for fault in RANDOM_FAULTS:
        proxy.inject(fault, probability=0.04 if fault.kind != "silence" else 0.01)
    possible: dict[str, set[bytes | None]] = {}
    done = failed = 0
    for _ in range(60):
        key = f"key/{random.randrange(4)}"
        versions = possible.setdefault(key, {None})
        action = random.choice(["put", "put", "get", "get", "delete"])
        try:
            if action == "put":
                content = random.randbytes(6 * MIB if random.random() < 0.2 else random.randrange(1, 5000))
                versions.add(content)
                store.put(key, io.BytesIO(content), len(content))
                possible[key] = {content}
            elif action == "delete":
                versions.add(None)
                store.delete([key])
                possible[key] = {None}
            else:
                start = random.randrange(3)
                content = store.get(key, start).read()
                assert content in {version[start:] for version in versions if version is not None}
            done += 1
        except RemoteResourceNotFound:
            assert None in versions
        except RemoteStorageError:
            failed += 1
    assert done > failed
    assert proxy.faults.total() > 5
    proxy.clear()
    wait_until_passes(partial(put_afterwards, store), tolerated=(StoreUnavailable,))
    assert s3.uploads(bucket) == []
