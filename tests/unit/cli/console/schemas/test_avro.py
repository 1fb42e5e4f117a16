"""Values of Avro: bytes that fastavro 1.12 wrote, and hostile ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.cli.console.schemas.avro import avro_decoder
from tidelog.cli.console.schemas.registry import AVRO, ReferencedSchema, Schema


def decode(schema: Any, payload: bytes, *references: Any) -> Any:
    """Decode a payload with a schema, whose references are defined before it."""
    definitions = tuple(
        ReferencedSchema(str(number), json.dumps(each)) for number, each in enumerate(references)
    )
    return avro_decoder(Schema(1, AVRO, json.dumps(schema), definitions))(payload)


def record(*fields: Any, name: str = "Tide") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


SPOT = record(("name", "string"), name="org.tides.Spot")
TIDE = {
    **record(
        ("spot", "Spot"),
        ("height", "double"),
        ("rising", "boolean"),
        ("count", "int"),
        ("note", ["null", "string"]),
        ("levels", {"type": "array", "items": "float"}),
        ("extra", {"type": "map", "values": "long"}),
        ("state", {"type": "enum", "name": "State", "symbols": ["LOW", "HIGH"]}),
        ("mark", {"type": "fixed", "name": "Mark", "size": 2}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("raw", "bytes"),
    ),
    "namespace": "org.tides",
}
VALUE = {
    "spot": {"name": "Brest"},
    "height": 7.25,
    "rising": True,
    "count": -300,
    "note": "Hochwasser é",
    "levels": [0.5, 1.5],
    "extra": {"x": 2**40},
    "state": "HIGH",
    "mark": b"\x01\x02",
    "at": "2026-11-28T09:14:00.500000+00:00",
    "day": "2026-11-28",
    "price": "-12.34",
    "raw": b"\xff",
}
WRITTEN_BY_FASTAVRO = bytes.fromhex(
    "0a42726573740000000000001d4001d704021a486f636877617373657220c3a9040000003f0000c03f0002027880808080804000020102"
    "e8c6f696c468e2c40204fb2e02ff"
)


def test_every_type_is_decoded_as_fastavro_has_written_it() -> None:
    assert decode(TIDE, WRITTEN_BY_FASTAVRO, SPOT) == VALUE


def test_blocks_with_a_size_are_decoded() -> None:
    # -2 elements, 2 bytes, 1 and 2, the end.
    assert decode({"type": "array", "items": "int"}, bytes([3, 4, 2, 4, 0])) == [1, 2]


def test_a_recursive_type_is_decoded() -> None:
    schema = record(("value", "int"), ("next", ["null", "Node"]), name="Node")
    assert decode(schema, bytes([2, 2, 4, 0])) == {"value": 1, "next": {"value": 2, "next": None}}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        pytest.param(
            {"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", id="count"
        ),
        pytest.param(record(("same", "Tide")), b"", id="a record that contains itself"),
        pytest.param(record(("next", ["null", "Tide"])), b"\x02" * 1000, id="depth"),
        pytest.param("string", b"\xc0\x84\x3d", id="a length after the end"),
        pytest.param("string", b"\x01", id="a negative length"),
        pytest.param("long", b"\x80" * 11, id="more than 64 bits"),
        pytest.param("int", b"\x02\x02", id="bytes after the value"),
        pytest.param(["null"], b"\x04", id="a branch that does not exist"),
        pytest.param({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", id="a negative symbol"),
        pytest.param("string", b"\x02\xff", id="not UTF-8"),
    ],
)
def test_hostile_values_are_refused(schema: Any, payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(schema, payload)


@pytest.mark.parametrize(
    "schema", ["Unknown", {"type": "record"}, 3, {"type": ["null", 3]}, {"items": "int"}]
)
def test_schemas_that_are_not_of_avro_are_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="not"):
        decode(schema, b"")


def test_times_beyond_the_calendar_remain_numbers() -> None:
    schema = {"type": "long", "logicalType": "timestamp-micros"}
    assert decode(schema, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01") == 2**63 - 1
