"""The comparison of our messages with the JSON definitions of Kafka that kafka-python ships."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.harness.schemas.__main__ import main
from tests.harness.schemas.comparison import compare
from tests.harness.schemas.layout import Definition
from tests.support.messages.all_messages import all_messages

DEFINITIONS = Path(str(files("kafka.protocol.schemas").joinpath("resources")))
OURS = {message.__name__: message for message in all_messages()}


def test_no_message_differs_from_the_definitions_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(DEFINITIONS)]) == 0
    assert re.search(r"^1\d\d definitions compared, 0 differences$", capsys.readouterr().out, re.MULTILINE)


def remove_a_field(definition: dict[str, Any]) -> None:
    definition["fields"] = [field for field in definition["fields"] if field["name"] != "MinBytes"]


def add_a_field(definition: dict[str, Any]) -> None:
    definition["fields"].append({"name": "NewField", "type": "int32", "versions": "17+"})


def swap_two_fields(definition: dict[str, Any]) -> None:
    names = [field["name"] for field in definition["fields"]]
    a, b = names.index("MinBytes"), names.index("MaxWaitMs")
    definition["fields"][a], definition["fields"][b] = definition["fields"][b], definition["fields"][a]


def change_a_default(definition: dict[str, Any]) -> None:
    next(field for field in definition["fields"] if field["name"] == "SessionEpoch")["default"] = "7"


def change_a_nested_type(definition: dict[str, Any]) -> None:
    topics = next(field for field in definition["fields"] if field["name"] == "Topics")
    next(field for field in topics["fields"] if field["name"] == "Topic")["type"] = "bytes"


def add_a_version(definition: dict[str, Any]) -> None:
    definition["validVersions"] = "4-99"


def change_flexible_versions(definition: dict[str, Any]) -> None:
    definition["flexibleVersions"] = "13+"


def make_nullable(definition: dict[str, Any]) -> None:
    next(field for field in definition["fields"] if field["name"] == "RackId")["nullableVersions"] = "16+"


def rename_the_message(definition: dict[str, Any]) -> None:
    definition["name"] = "TeleportRequest"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (remove_a_field, "FetchRequest v4-18: min_bytes: int32, default 0 is not Kafka's"),
        (add_a_field, "FetchRequest v17-18: new_field: int32, default 0 is missing"),
        (swap_two_fields, "FetchRequest v4-18: the message has another order of fields"),
        (
            change_a_default,
            "session_epoch: int32, default 7 in Kafka, ours is session_epoch: int32, default -1",
        ),
        (change_a_nested_type, "topics.topic: bytes, default b'' in Kafka"),
        (add_a_version, "FetchRequest v19-99: version not declared"),
        (change_flexible_versions, "FetchRequest v12: flexible in one of the two only"),
        (make_nullable, "FetchRequest v16-18: rack_id: string nullable"),
        (rename_the_message, "TeleportRequest: not declared"),
    ],
)
def test_each_kind_of_difference_is_reported_once_with_its_versions(
    change: Callable[[dict[str, Any]], None], line: str, tmp_path: Path
) -> None:
    text = re.sub(r"^\s*//.*$", "", (DEFINITIONS / "FetchRequest.json").read_text(), flags=re.MULTILINE)
    definition = json.loads(text)
    change(definition)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(definition))
    differences = compare(Definition.read(path), OURS)
    assert len([text for text in differences if line in text]) == 1, differences


def test_a_file_without_a_definition_is_reported(tmp_path: Path) -> None:
    (tmp_path / "Broken.json").write_text("{}")
    with pytest.raises(ValueError, match=r"Broken\.json is not a message definition"):
        Definition.read(tmp_path / "Broken.json")
