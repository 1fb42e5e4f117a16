"""GETs that are built from the first request of botocore's client."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.s3.fault_proxy import FaultProxy, response_fault, server_error
from tests.support.s3.server import S3Server
from tests.unit.remote.objects.stores.conftest import NewStore
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.port import ObjectStore, RequestKind, StorePorts
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, StoreUnavailable

CONTENT = bytes(range(256)) * 20
FROM_THE_CLIENT = "amz-sdk-invocation-id"
"""A header that only the client adds."""


def read(store: ObjectStore, key: str, start: int | None = None, end: int | None = None) -> bytes:
    """Return a range of an object."""
    with closing(store.get(key, start, end)) as stream:
        return stream.read()


def client_sent(proxy: FaultProxy) -> list[bool]:
    """Return for each recent GET whether the client sent it."""
    gets = [request for request in proxy.recent_requests if request.method == "GET"]
    return [FROM_THE_CLIENT in request.headers for request in gets]


def test_the_client_sends_the_first_get_and_no_other(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store()
    key = "a b/k+é~=&.log"
    store.put(key, CONTENT)
    store.put("other", b"x")
    assert read(store, key) == CONTENT
    assert read(store, key, 10, 99) == CONTENT[10:100]
    assert read(store, key, 10) == CONTENT[10:]
    assert read(store, "other") == b"x"
    assert client_sent(proxy) == [True, False, False, False]
    assert "signature" in proxy.recent_requests[-1].headers["authorization"].lower()


def test_with_checksums_the_client_sends_every_get(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store({"aws.checksum.check.enabled": "true"})
    store.put("a", CONTENT)
    for _ in range(3):
        assert read(store, "a") == CONTENT
    assert client_sent(proxy) == [True, True, True]


@pytest.mark.parametrize("status", [301, 307, 400])
def test_the_client_follows_redirections_and_learns_again(
    proxy: FaultProxy, new_proxied_store: NewStore, status: int
) -> None:
    store = new_proxied_store()
    store.put("a", CONTENT)
    assert read(store, "a") == CONTENT
    proxy.inject(response_fault(status, b""), method="GET", times=1)
    assert read(store, "a", 5, 9) == CONTENT[5:10]
    assert read(store, "a", 5, 9) == CONTENT[5:10]
    assert client_sent(proxy) == [True, False, True, False]


def test_a_missing_object_is_reported_after_the_first_get(new_proxied_store: NewStore) -> None:
    store = new_proxied_store()
    store.put("a", CONTENT)
    assert read(store, "a") == CONTENT
    with pytest.raises(RemoteResourceNotFound, match="'b'"):
        store.get("b", 0, 9)


def test_code_and_message_of_an_error_are_reported(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store({"s3.api.call.attempts": "2"})
    store.put("a", CONTENT)
    assert read(store, "a") == CONTENT
    proxy.inject(server_error(503, "SlowDown"), method="GET", times=2)
    with pytest.raises(StoreUnavailable, match=r"SlowDown \(HTTP 503\).*2 attempts"):
        store.get("a")
    assert read(store, "a") == CONTENT


def test_changed_credentials_sign_the_next_get(
    proxy: FaultProxy, s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    values = s3.config(bucket, endpoint=proxy.endpoint)
    names = ("aws.access.key.id", "aws.secret.access.key")
    file.write_text("".join(f"{name}={values.pop(name)}\n" for name in names))
    with closing(object_store("s3", {**values, "aws.credentials.file": str(file)})) as store:
        store.put("a", CONTENT)
        assert read(store, "a") == CONTENT
        file.write_text(f"{names[0]}=a-new-key\n{names[1]}=a-new-secret\n")
        assert read(store, "a") == CONTENT  # the server verifies no signatures
    assert "Credential=a-new-key/" in proxy.recent_requests[-1].headers["authorization"]


def test_every_get_is_counted_once(s3: S3Server, bucket: str) -> None:
    requests: Counter[RequestKind] = Counter()
    ports = StorePorts(on_request=lambda kind: requests.update([kind]))
    with closing(object_store("s3", s3.config(bucket), ports)) as store:
        store.put("a", CONTENT)
        for _ in range(3):
            assert read(store, "a") == CONTENT
    assert requests[RequestKind.GET] == 3
