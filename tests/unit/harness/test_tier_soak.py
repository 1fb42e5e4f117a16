"""A short soak run of tiered storage: a faulty S3 server and three nodes, one of which is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import confluent_kafka
import pytest

from tests.harness.tier_soak.faults import FaultFrequency
from tests.harness.tier_soak.records import VALUE_BYTES, Reader, value_of
from tests.harness.tier_soak.run import Options, TierSoak


@pytest.mark.long
def test_each_record_is_read_once_from_a_faulty_store_while_nodes_are_killed(
    tmp_path: Path,
) -> None:
    options = Options(
        total_bytes=12_000_000,
        faults_min=5,
        bytes_per_s=1_500_000,
        topics=2,
        kill_every_s=5.0,
        fault_frequency=FaultFrequency(share=0.15, outage_every_s=3.0, outage_s=2.0),
    )
    outcome = TierSoak(options, tmp_path / "soak", lambda *_: None).run()
    assert outcome.problems == []
    assert outcome.acknowledged == 2 * (options.total_bytes // 2 // VALUE_BYTES)
    assert outcome.kills and outcome.outages and sum(outcome.faults.values()) >= options.faults_min
    assert outcome.tiered_bytes > 0.5 * options.total_bytes
    assert 0 < outcome.retained_records < outcome.compacted_records
    assert outcome.repaired_segments == options.topics
    assert outcome.mounted_records > 0.5 * outcome.acknowledged / options.topics


class Message:
    """A record as librdkafka returns it."""

    def __init__(self, offset: int, value: bytes) -> None:
        self._offset, self._value = offset, value

    def error(self) -> confluent_kafka.KafkaError | None:
        return None

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value


@pytest.mark.parametrize(
    ("offset", "content", "problem"),
    [
        (0, 0, None),
        (1, 1, "was read, expected 0"),
        (0, 1, "other bytes"),
    ],
    ids=["right", "left out", "another's bytes"],
)
def test_a_reader_reports_violations(offset: int, content: int, problem: str | None) -> None:
    reader = Reader("127.0.0.1:1", "t", 10)
    reader._check(cast(Any, Message(offset, value_of("t", content))))
    assert len(reader.problems) == (problem is not None)
    assert problem is None or problem in reader.problems[0]
