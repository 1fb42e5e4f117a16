"""Repair of segments whose objects belong to another topic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tests.support.tier.segment_metadata import copy_start
from tidelog.remote.objects.layout.custom_metadata import CustomMetadata, encode_custom_metadata
from tidelog.remote.repair.repair import DamagedRemoteSegment, SegmentRepair
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG


async def test_the_objects_of_another_topic_are_not_written_again() -> None:
    custom_metadata = encode_custom_metadata(CustomMetadata(source_path="tides-x/0/1"))
    metadata = replace(copy_start(1, 0, 49, 5), custom_metadata=custom_metadata)
    repair = SegmentRepair(cast(Any, None), "unused:1", {}, executes=True)
    outcome = await repair.repair(DamagedRemoteSegment(metadata, (), DEFAULT_LOG_CONFIG), [1])
    assert not outcome.is_written
    assert "belong to another topic" in outcome.problem
