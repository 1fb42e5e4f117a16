"""The values of changes that cannot be used."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tidelog.cli.console.changes import InvalidChangeError, create_topic, reset_offsets, write_record
from tidelog.clients.admin.admin import Admin

NO_CLUSTER = cast(Admin, None)
"""No test gets as far as the cluster."""
HALF_OF_A_CHARACTER = json.loads('"\\ud800"')


@pytest.mark.parametrize("to", ["offset", "timestamp_ms"])
async def test_a_reset_to_an_offset_or_a_time_needs_it(to: str) -> None:
    with pytest.raises(InvalidChangeError, match="number=None: allowed are 0 to"):
        await reset_offsets(NO_CLUSTER, "g", {"to": to, "topic": "tides", "execute": True})


async def test_a_topic_cannot_have_half_of_a_character_in_its_name() -> None:
    with pytest.raises(InvalidChangeError, match="name="):
        await create_topic(NO_CLUSTER, {"name": HALF_OF_A_CHARACTER})


@pytest.mark.parametrize(
    "document",
    [{"key": HALF_OF_A_CHARACTER}, {"value": HALF_OF_A_CHARACTER}, {"headers": {HALF_OF_A_CHARACTER: "a"}}],
)
async def test_a_record_cannot_have_half_of_a_character(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidChangeError):
        await write_record("localhost:1", {}, "tides", document)
