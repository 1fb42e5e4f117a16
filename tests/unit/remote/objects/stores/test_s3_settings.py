"""Settings of the S3 adapter, and their effect on requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.s3.fault_proxy import FaultProxy
from tests.support.waiting import wait_until
from tests.unit.remote.objects.stores.conftest import NewStore
from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.s3_client import FileCredentials
from tidelog.remote.objects.stores.s3_settings import S3Settings

LEAST = {"s3.bucket.name": "b", "s3.region": "eu-north-1"}
SECRET = "very-secret"


def test_minimal_settings_have_aivens_defaults_and_bounded_timeouts() -> None:
    settings = S3Settings.from_config(LEAST)
    assert settings == S3Settings(
        bucket="b",
        region="eu-north-1",
        endpoint_url=None,
        storage_class="STANDARD",
        path_style=None,
        part_bytes=25 * 1024 * 1024,
        call_timeout_ms=60_000,
        attempt_timeout_ms=30_000,
        attempts_max=6,
        connect_timeout_ms=5_000,
        read_timeout_ms=10_000,
        connections_max=64,
        legacy_md5=False,
        anonymous=False,
        access_key_id=None,
        secret_access_key=None,
        session_token=None,
        credentials_file=None,
        certificate_check=True,
        checksum_check=False,
    )


def test_a_custom_endpoint_needs_no_region() -> None:
    values = {"s3.bucket.name": "b", "s3.endpoint.url": "http://127.0.0.1:9000"}
    assert S3Settings.from_config(values).region == "us-east-1"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"s3.bucket.name": None}, "s3.bucket.name; a value is required"),
        ({"s3.bucket.name": ""}, "s3.bucket.name=; allowed is a text that is not empty"),
        ({"s3.region": None}, "s3.region; a value is required without s3.endpoint.url"),
        (
            {"s3.endpoint.url": "localhost:9000"},
            "s3.endpoint.url=localhost:9000; allowed is a URL that begins",
        ),
        ({"s3.multipart.upload.part.size": "5242879"}, "s3.multipart.upload.part.size=5242879; allowed is a"),
        ({"s3.api.call.timeout": "0"}, "s3.api.call.timeout=0; allowed is a 64-bit number from 1 to"),
        (
            {"s3.path.style.access.enabled": "yes"},
            "s3.path.style.access.enabled=yes; allowed is true or false",
        ),
        ({"aws.access.key.id": SECRET}, "aws.access.key.id and aws.secret.access.key must be set together"),
        ({"aws.secret.access.key": SECRET}, "must be set together"),
        (
            {"aws.access.key.id": SECRET, "aws.secret.access.key": SECRET, "aws.credentials.file": "f"},
            "only one of aws.access.key.id and aws.credentials.file may be set",
        ),
        ({"aws.credentials.provider.class": "com.example.Own"}, "allowed is DefaultCredentialsProvider or"),
        (
            {"s3.buckt.name": SECRET},
            "s3.buckt.name=[not shown]; the key is unknown; did you mean s3.bucket.name?; allowed is one of",
        ),
    ],
)
def test_an_invalid_value_is_reported_in_one_line_without_secrets(changes: dict[str, Any], text: str) -> None:
    values = {key: value for key, value in {**LEAST, **changes}.items() if value is not None}
    with pytest.raises(ConfigError) as raised:
        S3Settings.from_config(values)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)
    assert SECRET not in str(raised.value)


def test_settings_do_not_show_secrets() -> None:
    settings = S3Settings.from_config({**LEAST, "aws.access.key.id": "k", "aws.secret.access.key": SECRET})
    assert SECRET not in repr(settings)


def test_a_changed_credentials_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("# credentials\naws.access.key.id=one\nrsm.config.storage.aws.secret.access.key = a=b\n")
    credentials = FileCredentials(str(file))
    assert credentials.get_frozen_credentials()[:3] == ("one", "a=b", None)
    file.write_text("aws.access.key.id=second\naws.secret.access.key=c\naws.session.token=t\n")
    assert credentials.get_frozen_credentials()[:3] == ("second", "c", "t")
    file.write_text("half a file")
    assert credentials.get_frozen_credentials()[:3] == ("second", "c", "t")
    file.unlink()
    assert credentials.get_frozen_credentials()[:3] == ("second", "c", "t")


def test_an_unreadable_credentials_file_is_reported_at_start(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "empty"):
        if path.name == "empty":
            path.write_text("")
        with pytest.raises(ConfigError, match=r"aws\.credentials\.file="):
            object_store("s3", {**LEAST, "aws.credentials.file": str(path)})


def test_requests_are_signed_with_credentials_of_a_file(
    proxy: FaultProxy, new_proxied_store: NewStore, tmp_path: Path
) -> None:
    plain = new_proxied_store()
    plain.put("a", b"x")
    values = {"aws.access.key.id": "key-of-the-file", "aws.secret.access.key": "s"}
    file = tmp_path / "credentials"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    from_file = object_store(
        "s3",
        {
            "s3.bucket.name": "b",
            "s3.endpoint.url": proxy.endpoint,
            "s3.path.style.access.enabled": "true",
            "aws.credentials.file": str(file),
            "s3.api.call.attempts": "1",
        },
    )
    with pytest.raises(Exception, match="b"):
        from_file.get("a")
    from_file.close()
    assert "key-of-the-file" in proxy.recent_requests[-1].headers["authorization"]


def checksum_headers(proxy: FaultProxy, method: str) -> set[str]:
    request = next(request for request in reversed(proxy.recent_requests) if request.method == method)
    return {name for name in request.headers if name == "content-md5" or name.startswith("x-amz-checksum-")}


def test_checksums_are_sent_as_configured(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    plain = new_proxied_store()
    plain.put("a", b"x")
    assert checksum_headers(proxy, "PUT") == {"x-amz-checksum-crc32c"}
    checked = new_proxied_store({"aws.checksum.check.enabled": "true"})
    checked.put("a", b"checked")
    assert checksum_headers(proxy, "PUT") == {"x-amz-checksum-crc32"}
    assert checked.get("a").read() == b"checked"
    assert checked.get("a", 2, 4).read() == b"eck"
    legacy = new_proxied_store({"s3.legacy.md5.plugin.enabled": "true"})
    legacy.put("a", b"x")
    assert checksum_headers(proxy, "PUT") == {"content-md5"}
    legacy.delete(["a"])
    assert checksum_headers(proxy, "POST") == {"content-md5"}


def test_sequential_calls_share_one_connection(proxy: FaultProxy, new_proxied_store: NewStore) -> None:
    store = new_proxied_store()
    for number in range(10):
        store.put(f"a{number}", bytes(5000))
        assert store.get(f"a{number}").read() == bytes(5000)
        assert store.get(f"a{number}", 10, 20).read() == bytes(11)
        assert store.size(f"a{number}") == 5000
    assert len(list(store.list(""))) == 10
    assert proxy.accepted == 1


def test_streams_closed_early_leave_no_connection_open(
    proxy: FaultProxy, new_proxied_store: NewStore
) -> None:
    store = new_proxied_store()
    store.put("a", bytes(3_000_000))
    streams = [store.get("a") for _ in range(5)]
    for stream in streams:
        stream.read(10)
        stream.close()
    wait_until(lambda: proxy.open_connections <= 1)
