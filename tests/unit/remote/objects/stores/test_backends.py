"""Stores by class name, and the modules they import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.fsspec_store import FsspecStore
from tidelog.remote.objects.stores.local_directory import LocalDirectoryStore
from tidelog.remote.objects.stores.s3 import S3Store
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError

AIVEN = "io.aiven.kafka.tieredstorage.storage."


def test_stores_are_named_by_aivens_class_names_and_short_names(tmp_path: Path) -> None:
    s3 = {"s3.bucket.name": "b", "s3.region": "eu-north-1"}
    for name in ("filesystem", f"{AIVEN}filesystem.FileSystemStorage"):
        assert isinstance(object_store(name, {"root": str(tmp_path)}), LocalDirectoryStore)
    for name in ("s3", f"{AIVEN}s3.S3Storage"):
        assert isinstance(object_store(name, s3), S3Store)
    assert isinstance(object_store("fsspec", {"fsspec.url": "memory://x"}), FsspecStore)


def test_an_unknown_store_name_is_refused_in_one_line() -> None:
    with pytest.raises(
        ConfigError, match=r"storage\.backend\.class=gopher; allowed is one of: filesystem, s3"
    ):
        object_store("gopher", {})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "fsspec.url; a value is required"),
        (
            {"fsspec.url": "nowhere://x"},
            "fsspec.url=nowhere://x; allowed is a URL of an installed file system",
        ),
        (
            {"fsspec.url": "memory://x", "fsspec.options": "secret"},
            "fsspec.options=[hidden]; allowed is a JSON",
        ),
        ({"fsspec.url": "memory://x", "fsspec.options": "[1]"}, "fsspec.options=[hidden]; allowed is a JSON"),
    ],
)
def test_invalid_fsspec_options_are_reported_in_one_line(values: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        object_store("fsspec", values)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_options_reach_the_file_system(tmp_path: Path) -> None:
    values = {"fsspec.url": f"file://{tmp_path}/made/by/put", "fsspec.options": '{"auto_mkdir": true}'}
    store = object_store("fsspec", values)
    store.put("a", b"x")
    assert (tmp_path / "made/by/put/a").read_bytes() == b"x"


def test_objects_of_fsspec_file_systems_are_read_in_parts(tmp_path: Path) -> None:
    options = json.dumps({"path": str(tmp_path), "target_protocol": "file"})
    store = object_store("fsspec", {"fsspec.url": "dir://", "fsspec.options": options})
    content = bytes(range(256)) * 40_000
    store.put("some/key", content, len(content))
    assert store.get("some/key").read() == content
    assert store.get("some/key", 4_000_000, 9_000_000).read() == content[4_000_000:9_000_001]
    stream = store.get("some/key")
    stream.close()
    with pytest.raises(RemoteStorageError, match="the stream is closed"):
        stream.read(1)
    with pytest.raises(RemoteResourceNotFound):
        store.get("some/other")


def test_a_broker_without_s3_loads_neither_boto3_nor_fsspec(tmp_path: Path) -> None:
    program = (
        "import sys; from tidelog.remote.objects.stores.backends import object_store;"
        f"object_store('filesystem', {{'root': {str(tmp_path)!r}}}).put('a', b'x');"
        "print([name for name in ('boto3', 'botocore', 'fsspec') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
