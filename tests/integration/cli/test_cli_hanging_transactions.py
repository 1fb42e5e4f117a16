"""Classification of open transactions: those hang that no coordinator will end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tidelog.base.clock import SystemClock
from tidelog.cli.transactions.hanging import find_hanging
from tidelog.clients.admin.admin import ActiveProducer, Admin, TransactionDescription
from tidelog.clients.admin.transactions import TransactionListing
from tidelog.clients.admin.types import TopicDescription
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.schema import ZERO_UUID

P0, P1 = TopicPartition("tides", 0), TopicPartition("tides", 1)
HOUR_MS = 3_600_000
Results = dict[Any, Any]


class AdminDouble:
    """An admin client of two partitions, both written by producer 7 as "gauge"."""

    def __init__(
        self, *, age_ms: int = 2 * HOUR_MS, coordinator_partitions: tuple[TopicPartition, ...] | None
    ) -> None:
        self._coordinator_partitions = coordinator_partitions
        self._last_timestamp = SystemClock().wall_ms() - age_ms
        self.topic_error: KafkaError | None = None
        self.partition_error: KafkaError | None = None
        self.coordinator_error: KafkaError | None = None

    async def list_topics(self, *, include_internal: bool) -> Results:
        return {"tides": None}

    async def describe_topics(self, names: list[str]) -> Results:
        partitions = tuple(PartitionMetadata(number, 1, 0, (1,), (1,), (), 0) for number in (0, 1))
        description = TopicDescription(
            name="tides", topic_id=ZERO_UUID, is_internal=False, partitions=partitions
        )
        return dict.fromkeys(names, self.topic_error or description)

    async def describe_producers(self, partitions: list[TopicPartition]) -> Results:
        producer = ActiveProducer(
            producer_id=7,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp=self._last_timestamp,
            coordinator_epoch=-1,
            current_transaction_start_offset=5,
        )
        return {P0: (producer,), P1: self.partition_error or (producer,)}

    async def list_transactions(self, *, producer_ids: list[int]) -> dict[str, TransactionListing]:
        if self._coordinator_partitions is None:
            return {}
        listing = TransactionListing(
            transactional_id="gauge", producer_id=7, state="Ongoing", coordinator_id=1
        )
        return {"gauge": listing}

    async def describe_transactions(self, ids: list[str]) -> Results:
        assert self._coordinator_partitions is not None or not ids
        description = TransactionDescription(
            transactional_id="gauge",
            coordinator_id=1,
            state="Ongoing",
            producer_id=7,
            producer_epoch=0,
            timeout_ms=60_000,
            start_time_ms=self._last_timestamp,
            partitions=self._coordinator_partitions or (),
        )
        return dict.fromkeys(ids, self.coordinator_error or description)


async def hanging_partitions(admin: AdminDouble) -> tuple[list[TopicPartition], bool]:
    transactions, is_complete = await find_hanging(cast(Admin, admin), (), None, HOUR_MS)
    return [one.topic_partition for one in transactions], is_complete


async def test_a_transaction_that_its_coordinator_will_end_is_not_hanging() -> None:
    assert await hanging_partitions(AdminDouble(coordinator_partitions=(P0, P1))) == ([], True)


async def test_a_partition_unknown_to_the_coordinator_is_hanging() -> None:
    assert await hanging_partitions(AdminDouble(coordinator_partitions=(P1,))) == ([P0], True)


async def test_a_producer_unknown_to_all_coordinators_has_hanging_transactions() -> None:
    assert await hanging_partitions(AdminDouble(coordinator_partitions=None)) == ([P0, P1], True)


async def test_a_recent_transaction_is_not_hanging() -> None:
    assert await hanging_partitions(AdminDouble(coordinator_partitions=None, age_ms=HOUR_MS // 2)) == (
        [],
        True,
    )


async def test_a_coordinator_without_response_classifies_no_transaction() -> None:
    admin = AdminDouble(coordinator_partitions=())
    admin.coordinator_error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "moving")
    with pytest.raises(KafkaError, match="moving"):
        await hanging_partitions(admin)


@pytest.mark.parametrize("what", ["topic", "partition"])
async def test_an_incomplete_search_is_reported_as_incomplete(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = AdminDouble(coordinator_partitions=None)
    setattr(admin, f"{what}_error", KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no broker"))
    assert await hanging_partitions(admin) == ([P0] if what == "partition" else [], False)
    assert "no broker" in capsys.readouterr().err
