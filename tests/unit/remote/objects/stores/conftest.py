"""Empty stores of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.s3.fault_proxy import FaultProxy, fault_proxy
from tests.support.s3.server import S3Server, s3_server
from tidelog.remote.objects.stores.backends import object_store
from tidelog.remote.objects.stores.port import ObjectStore

NewStore: TypeAlias = Callable[..., ObjectStore]
KINDS = ("local_directory", "fsspec_file", "fsspec_memory", "s3")


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Run one S3 server for all tests of this process."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> Iterator[str]:
    """Return the name of an empty bucket."""
    with s3.bucket() as name:
        yield name


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """Run a proxy in front of the S3 server, without faults."""
    with fault_proxy(s3.endpoint, seed=1) as running:
        yield running


@pytest.fixture
def new_proxied_store(s3: S3Server, bucket: str, proxy: FaultProxy) -> Iterator[NewStore]:
    """Return a function that creates an S3 store behind the proxy, with additional config values."""
    with ExitStack() as stores:

        def new(values: dict[str, str] | None = None) -> ObjectStore:
            config = {**s3.config(bucket, endpoint=proxy.endpoint), **(values or {})}
            return stores.enter_context(closing(object_store("s3", config)))

        yield new
        proxy.clear()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """Return an empty store of each kind."""
    with ExitStack() as resources:
        if request.param == "local_directory":
            backend, values = "filesystem", {"root": str(tmp_path)}
        elif request.param == "fsspec_file":
            backend, values = "fsspec", {"fsspec.url": f"file://{tmp_path}"}
        elif request.param == "fsspec_memory":
            backend, values = "fsspec", {"fsspec.url": f"memory://{tmp_path}"}
        else:
            server = request.getfixturevalue("s3")
            backend, values = "s3", server.config(resources.enter_context(server.bucket()))
        yield resources.enter_context(closing(object_store(backend, values)))
