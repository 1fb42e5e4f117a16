"""Karapace, a schema registry in Python, stores its schemas on our broker, and the console uses them.

`TIDELOG_KARAPACE` is the program of Karapace; `make test-schema-registry` installs it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.integration.console.browser import signed_in_browser
from tests.integration.console.conftest import running_console
from tests.support.waiting import wait_until
from tidelog.clients.producer.producer import Producer
from tidelog.local_cluster.ports import free_ports
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        "TIDELOG_KARAPACE" not in os.environ, reason="TIDELOG_KARAPACE is not set: no Karapace"
    ),
]

FIELDS: Final = [{"name": "place", "type": "string"}, {"name": "metres", "type": "int"}]
UNIT: Final = {"name": "unit", "type": "string"}
TIDE: Final = {"type": "record", "name": "Tide", "fields": FIELDS}
COMPATIBLE: Final = {**TIDE, "fields": [*FIELDS, {**UNIT, "default": "m"}]}
INCOMPATIBLE: Final = {**TIDE, "fields": [*FIELDS, UNIT]}
START_TIMEOUT_S: Final = 300


class Registry:
    """The API of a registry."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        """Return a document."""
        with urlopen(f"{self.url}{path}", timeout=60) as response:
            return json.loads(response.read())

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register an Avro schema; return its id."""
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        request = Request(f"{self.url}/subjects/{subject}/versions", data=body, method="POST")
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        with urlopen(request, timeout=60) as response:
            return int(json.loads(response.read())["id"])

    def is_ready(self) -> bool:
        """Return whether the registry has read the stored schemas."""
        try:
            health = self.get("/_health")
        except (URLError, OSError):
            return False
        return bool(health["schema_registry_ready"] and health["schema_registry_is_primary"])


@contextmanager
def running_registry(bootstrap: str, folder: Path) -> Iterator[Registry]:
    """Run Karapace until the end of the block."""
    (port,) = free_ports(1)
    settings = {
        "bootstrap_uri": bootstrap,
        "host": "127.0.0.1",
        "port": port,
        "advertised_hostname": "127.0.0.1",
        "karapace_registry": True,
        "log_level": "WARNING",
    }
    config, log = folder / f"karapace-{port}.json", folder / f"karapace-{port}.log"
    config.write_text(json.dumps(settings))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [os.environ["TIDELOG_KARAPACE"], str(config)],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    registry = Registry(f"http://127.0.0.1:{port}")

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        return registry.is_ready()

    try:
        wait_until(is_ready, timeout_s=START_TIMEOUT_S)
        yield registry
    finally:
        process.terminate()
        process.wait()


async def test_karapace_stores_schemas_on_our_broker_and_the_console_decodes_records(
    tmp_path: Path,
) -> None:
    with EmbeddedCluster() as cluster:
        with running_registry(cluster.bootstrap_servers, tmp_path) as registry:
            schema_id = registry.register("tides-value", TIDE)
            with pytest.raises(URLError, match="409"):
                registry.register("tides-value", INCOMPATIBLE)
            assert registry.register("tides-value", COMPATIBLE) != schema_id
        with running_registry(cluster.bootstrap_servers, tmp_path) as registry:
            assert registry.get("/subjects") == ["tides-value"]
            assert registry.get("/subjects/tides-value/versions") == [1, 2]
            assert json.loads(registry.get(f"/schemas/ids/{schema_id}")["schema"]) == TIDE
            async with Producer(cluster.bootstrap_servers) as producer:
                await producer.send("tides", b"\0" + schema_id.to_bytes(4) + b"\x0aBrest\x04", partition=0)
            options = ("--schema-registry", registry.url)
            with running_console(cluster.bootstrap_servers, *options) as address:
                async with signed_in_browser(address) as browser:
                    _, result = await browser.get("topics/tides/records?partition=0&offset=0")
    (record,) = result["records"]
    assert record["decoded_value"]["text"] == '{"place": "Brest", "metres": 2}'
    assert record["decoded_value"]["schema_type"] == "AVRO"
