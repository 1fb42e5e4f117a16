"""Requests that are built from the first request of botocore's client."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.s3.fault_proxy import FaultProxy, ReceivedRequest, response_fault, server_error
from tests.support.s3.server import S3Server
from tests.unit.remote.objects.stores.conftest import NewStore
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.port import ObjectStore, RequestKind, StorePorts
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, StoreUnavailable

CONTENT = bytes(range(256)) * 20
LARGE = bytes(1024 * 1024 + 1)
FROM_THE_CLIENT = "amz-sdk-invocation-id"
"""A header that only the client adds."""


class Operation(NamedTuple):
    method: str
    run: Callable[[ObjectStore], object]
    result: object


def read(store: ObjectStore, key: str, start: int | None = None, end: int | None = None) -> bytes:
    """Return a range of an object."""
    with closing(store.get(key, start, end)) as stream:
        return stream.read()


OPERATIONS = [
    Operation("GET", lambda store: read(store, "a", 5, 9), CONTENT[5:10]),
    Operation("HEAD", lambda store: store.size("a"), len(CONTENT)),
    Operation("PUT", lambda store: store.put("b", CONTENT), True),
]


def client_sent(proxy: FaultProxy, method: str) -> list[bool]:
    """Return for each recent request whether the client sent it."""
    requests = [request for request in proxy.recent_requests if request.method == method]
    return [FROM_THE_CLIENT in request.headers for request in requests]


def signature(request: ReceivedRequest, secret: str) -> str:
    """Return the signature of a request without a query string, computed as AWS specifies version 4."""
    path, headers = request.target, request.headers
    scope, names = re.findall(r"Credential=[^/]+/(\S+), SignedHeaders=(\S+),", headers["authorization"])[0]
    signed = "".join(f"{name}:{headers[name]}\n" for name in names.split(";"))
    canonical = "\n".join([request.method, path, "", signed, names, headers["x-amz-content-sha256"]])
    hashed = sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = digest(key, part.encode(), "sha256")
    return digest(
        key, "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashed]).encode(), "sha256"
    ).hex()


def test_the_client_sends_the_first_request_and_no_other(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store()
    key = "a b/k+é~=&.log"
    assert store.put(key, CONTENT)
    assert store.put("other", b"x")
    assert store.put("empty", b"")
    assert read(store, key) == CONTENT
    assert read(store, key, 10, 99) == CONTENT[10:100]
    assert read(store, key, 10) == CONTENT[10:]
    assert read(store, "other") == b"x"
    assert [store.size(name) for name in (key, "other", "empty")] == [len(CONTENT), 1, 0]
    assert client_sent(proxy, "PUT") == [True, False, False]
    assert client_sent(proxy, "GET") == [True, False, False, False]
    assert client_sent(proxy, "HEAD") == [True, False, False]


def test_requests_have_the_same_valid_signature_as_those_of_the_client(
    s3: S3Server, proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store({"s3.storage.class": "STANDARD_IA"})
    key = "a b/k+é~=&.log"
    for _ in range(2):
        store.put(key, CONTENT)
        store.size(key)
        read(store, key, 3, 7)
    assert len(proxy.recent_requests) == 6
    for request in proxy.recent_requests:
        assert request.headers["authorization"].endswith(f"Signature={signature(request, s3.secret_key)}")
    first, second = (request.headers for request in proxy.recent_requests if request.method == "PUT")
    assert second["x-amz-content-sha256"] == sha256(CONTENT).hexdigest()
    assert second["x-amz-storage-class"] == "STANDARD_IA"
    assert "expect" not in second
    by_client = {"amz-sdk-invocation-id", "amz-sdk-request", "expect"}
    assert set(second) == set(first) - by_client
    varying = {"authorization", "x-amz-date", "user-agent"}
    assert all(second[name] == first[name] for name in set(second) - varying)


@pytest.mark.parametrize(
    "setting", ["aws.checksum.check.enabled", "s3.legacy.md5.plugin.enabled"], ids=["checksums", "MD5"]
)
def test_the_client_sends_every_request_to_which_it_adds_a_checksum(
    proxy: FaultProxy, new_proxied_store: NewStore, setting: str
) -> None:
    store = new_proxied_store({setting: "true"})
    for _ in range(3):
        store.put("a", CONTENT)
        assert read(store, "a") == CONTENT
    assert client_sent(proxy, "PUT") == [True, True, True]
    if "checksum" in setting:
        assert client_sent(proxy, "GET") == [True, True, True]


def test_the_client_sends_large_objects(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store()
    store.put("a", b"x")
    for content in (LARGE, LARGE[1:]):
        assert store.put("a", content)
        assert read(store, "a") == content
    assert client_sent(proxy, "PUT") == [True, True, False]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.method)
@pytest.mark.parametrize("status", [301, 307, 400])
def test_the_client_follows_redirections_and_its_request_is_learned_again(
    proxy: FaultProxy, new_proxied_store: NewStore, operation: Operation, status: int
) -> None:
    store = new_proxied_store()
    store.put("a", CONTENT)
    assert operation.run(store) == operation.result
    proxy.inject(response_fault(status, b""), method=operation.method, times=1)
    assert operation.run(store) == operation.result
    assert operation.run(store) == operation.result
    assert client_sent(proxy, operation.method)[-4:] == [operation.method != "PUT", False, True, False]


def test_a_missing_object_is_reported_after_the_first_request(new_proxied_store: NewStore) -> None:
    store = new_proxied_store()
    store.put("a", CONTENT)
    assert read(store, "a") == CONTENT
    with pytest.raises(RemoteResourceNotFound, match="'b'"):
        store.get("b", 0, 9)
    assert store.size("a") == len(CONTENT)
    with pytest.raises(RemoteResourceNotFound, match="'b'"):
        store.size("b")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.method)
def test_code_and_message_of_an_error_are_reported(
    proxy: FaultProxy, new_proxied_store: NewStore, operation: Operation
) -> None:
    store = new_proxied_store({"s3.api.call.attempts": "2"})
    store.put("a", CONTENT)
    assert operation.run(store) == operation.result
    proxy.inject(server_error(503, "SlowDown"), method=operation.method, times=2)
    code = "503" if operation.method == "HEAD" else "SlowDown"  # the response to a HEAD has no body
    with pytest.raises(StoreUnavailable, match=rf"{code} \(HTTP 503\).*2 attempts"):
        operation.run(store)
    assert operation.run(store) == operation.result


def test_an_error_in_a_successful_response_to_a_put_is_retried(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store()
    store.put("a", b"x")
    rule = proxy.inject(server_error(200), method="PUT", times=2)
    assert store.put("a", CONTENT)
    assert rule.hits == 2
    assert read(store, "a") == CONTENT


def test_changed_credentials_sign_the_next_request(
    proxy: FaultProxy, s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    values = s3.config(bucket, endpoint=proxy.endpoint)
    names = ("aws.access.key.id", "aws.secret.access.key")
    file.write_text("".join(f"{name}={values.pop(name)}\n" for name in names))
    with closing(object_store("s3", {**values, "aws.credentials.file": str(file)})) as store:
        store.put("a", CONTENT)
        assert [operation.run(store) for operation in OPERATIONS] == [result for *_, result in OPERATIONS]
        file.write_text(f"{names[0]}=a-new-key\n{names[1]}=a-new-secret\n")
        # The server verifies no signatures.
        assert [operation.run(store) for operation in OPERATIONS] == [result for *_, result in OPERATIONS]
    for request in list(proxy.recent_requests)[-3:]:
        assert "Credential=a-new-key/" in request.headers["authorization"]
        assert FROM_THE_CLIENT not in request.headers


def test_every_request_is_counted_once(s3: S3Server, bucket: str) -> None:
    requests: Counter[RequestKind] = Counter()
    ports = StorePorts(on_request=lambda kind: requests.update([kind]))
    with closing(object_store("s3", s3.config(bucket), ports)) as store:
        for _ in range(3):
            store.put("a", CONTENT)
            assert store.size("a") == len(CONTENT)
            assert read(store, "a") == CONTENT
    assert requests == {RequestKind.PUT: 3, RequestKind.HEAD: 3, RequestKind.GET: 3}
