"""Records with schemas of a registry: Avro, JSON and Protobuf, and schemas that cannot be used."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from google.protobuf import descriptor_pb2

from tests.integration.console.browser import signed_in_browser
from tests.integration.console.conftest import running_console
from tidelog.clients.producer.producer import Producer
from tidelog.testing.embedded import EmbeddedCluster

SPOT = {"type": "record", "name": "Spot", "fields": [{"name": "name", "type": "string"}]}
TIDE = {
    "type": "record",
    "name": "Tide",
    "fields": [{"name": "spot", "type": "Spot"}, {"name": "m", "type": "int"}],
}


def protobuf_file() -> str:
    """Return the schema of a message with a nested one, as registries return it with format=serialized."""
    file = descriptor_pb2.FileDescriptorProto(name="tide.proto", package="tides", syntax="proto3")
    tide = file.message_type.add(name="Tide")
    tide.field.add(name="spot_name", number=1, type=9, label=1)
    nested = tide.nested_type.add(name="Level")
    nested.field.add(name="metres", number=1, type=5, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


DOCUMENTS: dict[str, Any] = {
    "/schemas/ids/1": {
        "schema": json.dumps(TIDE),
        "references": [{"name": "Spot", "subject": "spot/value", "version": 2}],
    },
    "/subjects/spot%2Fvalue/versions/2": {"id": 7, "schema": json.dumps(SPOT)},
    "/schemas/ids/2": {"schemaType": "JSON", "schema": "{}"},
    "/schemas/ids/3": {"schemaType": "PROTOBUF", "schema": protobuf_file()},
    "/schemas/ids/4": {"schema": '{"type": "array", "items": "null"}'},
    "/schemas/ids/5": {"schemaType": "THRIFT", "schema": ""},
}
REQUESTED: list[str] = []


@pytest.fixture
async def registry() -> AsyncIterator[str]:
    """Run a registry with these schemas; return its address, with the user that it requires."""

    async def respond(request: web.Request) -> web.Response:
        REQUESTED.append(request.path_qs)
        if request.headers.get("Authorization") != f"Basic {base64.b64encode(b'alice:secret').decode()}":
            return web.Response(status=401)
        document = DOCUMENTS.get(request.raw_path.partition("?")[0])
        return web.Response(status=404) if document is None else web.json_response(document)

    app = web.Application()
    app.router.add_get("/{path:.*}", respond)
    async with TestServer(app) as server:
        yield f"http://alice:secret@127.0.0.1:{server.port}"


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


VALUES = [
    framed(1, b"\x0aBrest\x04"),
    framed(2, b'{"spot": "Brest"}'),
    framed(3, b"\x00\x0a\x05Brest"),
    framed(3, b"\x04\x00\x00\x08\x07"),
    framed(4, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
    framed(5, b""),
    framed(6, b""),
    framed(1, b"\x0aBr"),
    b"plain",
]


async def test_values_are_decoded_with_their_schemas(registry: str) -> None:
    with EmbeddedCluster() as cluster:
        async with Producer(cluster.bootstrap_servers) as producer:
            for value in VALUES:
                await producer.send("tides", value, key=framed(2, b"1"), partition=0)
        with running_console(cluster.bootstrap_servers, "--schema-registry", registry) as address:
            async with signed_in_browser(address) as browser:
                assert (await browser.get("console"))[1]["has_schemas"]
                _, result = await browser.get("topics/tides/records?partition=0&offset=0")
                again, _ = await browser.get("topics/tides/records?partition=0&offset=0")
    decoded = [record.get("decoded_value") for record in result["records"]]
    assert [each["text"] for each in decoded[:4]] == [
        '{"spot": {"name": "Brest"}, "m": 2}',
        '{"spot": "Brest"}',
        '{"spot_name": "Brest"}',
        '{"metres": 7}',
    ]
    assert [each["schema_type"] for each in decoded[:4]] == ["AVRO", "JSON", "PROTOBUF", "PROTOBUF"]
    errors = [each["error"] for each in decoded[4:8]]
    assert "allowed are 100000 values" in errors[0]
    assert errors[1] == "schemas of type THRIFT are not supported"
    assert errors[2] == "the schema registry returned 404 for schemas/ids/6"
    assert "bytes should follow" in errors[3]
    assert decoded[8] is None
    assert {record["decoded_key"]["text"] for record in result["records"]} == {"1"}
    assert again == 200
    assert len(REQUESTED) == len(set(REQUESTED)), "each schema is requested once"


async def test_an_unreachable_registry_does_not_hide_records() -> None:
    with EmbeddedCluster() as cluster:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send("tides", VALUES[0], partition=0)
        with running_console(cluster.bootstrap_servers, "--schema-registry", "http://127.0.0.1:1") as address:
            async with signed_in_browser(address) as browser:
                _, result = await browser.get("topics/tides/records?partition=0&offset=0")
    (record,) = result["records"]
    assert record["value"] == VALUES[0].decode()
    assert record["decoded_value"]["error"].startswith("cannot reach the schema registry: ")
