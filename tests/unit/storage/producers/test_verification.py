"""A transaction begins only with a verified batch; one verification is for one transaction (KIP-890)."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch, end_marker, open_log
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.log.partition_log import AppendInfo, PartitionLog
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

PRODUCER = 7


class Partition:
    """A log, and a producer that writes transactions to it."""

    def __init__(self) -> None:
        self.log: PartitionLog = open_log(CrashFileSystem())

    def begin(self, sequence: int = 0, epoch: int = 0, *, bumps_epochs: bool = False) -> Verification | None:
        return self.log.producers.begin_verification(
            PRODUCER, epoch, sequence, NOW_MS, supports_epoch_bump=bumps_epochs
        )

    def append(
        self,
        verification: Verification | None,
        sequence: int = 0,
        epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        records = batch(
            ["a"], producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
        )
        return self.log.append_as_leader(records, 0, NOW_MS, origin=origin, verification=verification)

    def end(self, epoch: int = 0, *, transaction_version: int = 0) -> None:
        marker = end_marker(PRODUCER, producer_epoch=epoch)
        self.log.append_as_leader(
            marker, 0, NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=transaction_version
        )


@pytest.fixture
def partition() -> Partition:
    return Partition()


def expect_error(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def test_a_verified_batch_starts_the_transaction_and_later_ones_need_no_verification(
    partition: Partition,
) -> None:
    assert partition.append(partition.begin()).first_offset == 0
    assert partition.begin(1) is None
    assert partition.append(NO_VERIFICATION, 1).first_offset == 1


def test_an_unverified_batch_is_refused(partition: Partition) -> None:
    with expect_error(ErrorCode.INVALID_TXN_STATE):
        partition.append(NO_VERIFICATION)
    assert partition.log.log_end_offset == 0


def test_a_marker_before_the_verification_response_makes_the_client_retry(
    partition: Partition,
) -> None:
    verification = partition.begin()
    partition.end()
    with expect_error(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification)
    assert partition.append(partition.begin()).first_offset == 1


def test_the_marker_of_the_previous_transaction_keeps_the_next_verification(
    partition: Partition,
) -> None:
    # transaction.version 2: both have the same epoch, because a marker has the epoch after its transaction's.
    partition.append(partition.begin(bumps_epochs=True))
    verification = partition.begin(epoch=1, bumps_epochs=True)
    partition.end(epoch=1, transaction_version=2)
    assert partition.append(verification, epoch=1).first_offset == 2


def test_the_marker_of_the_verified_transaction_refuses_further_batches(partition: Partition) -> None:
    partition.append(partition.begin(bumps_epochs=True))
    verification = partition.begin(epoch=1, bumps_epochs=True)
    partition.end(epoch=1, transaction_version=2)
    partition.end(epoch=2, transaction_version=2)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.append(verification, epoch=1)
    assert partition.begin(epoch=2, bumps_epochs=True) is not verification


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_a_marker_that_may_be_of_the_verified_transaction_ends_the_verification(
    partition: Partition, transaction_version: int
) -> None:
    # A client that ends with version 1 a transaction of version 2, or a coordinator without version.
    partition.append(partition.begin(bumps_epochs=True))
    verification = partition.begin(epoch=1, bumps_epochs=True)
    partition.end(epoch=1, transaction_version=transaction_version)
    with expect_error(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification, epoch=1)


def test_a_marker_of_the_maximum_epoch_ends_every_verification(partition: Partition) -> None:
    verification = partition.begin(epoch=32767, bumps_epochs=True)
    partition.end(epoch=32767, transaction_version=2)
    with expect_error(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification, epoch=32767)


def test_a_begin_with_a_higher_epoch_does_not_keep_the_verification_of_a_lower_one(
    partition: Partition,
) -> None:
    verification = partition.begin(epoch=0)
    assert partition.begin(epoch=9) is verification
    partition.end(epoch=1, transaction_version=2)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.append(verification, epoch=0)


def test_a_batch_of_a_fenced_producer_starts_no_verification(partition: Partition) -> None:
    partition.end(epoch=3)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.begin(epoch=2)
    assert partition.begin(epoch=3) is not None


def test_a_truncation_ends_verifications(partition: Partition) -> None:
    partition.append(None, epoch=0)
    verification = partition.begin(epoch=1)
    partition.log.truncate_to(0)
    with expect_error(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification, epoch=1)


def test_a_response_for_an_earlier_transaction_does_not_verify_a_later_one(partition: Partition) -> None:
    earlier = partition.begin()
    partition.end()
    later = partition.begin()
    assert later is not earlier
    with expect_error(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(earlier)
    assert partition.append(later).first_offset == 1


def test_a_batch_of_a_transaction_that_has_ended_is_refused(partition: Partition) -> None:
    partition.append(partition.begin())
    assert partition.begin(1) is None
    partition.end()
    with expect_error(ErrorCode.INVALID_TXN_STATE):
        partition.append(NO_VERIFICATION, 1)


def test_a_duplicate_batch_of_an_ended_transaction_gets_its_first_offsets(
    partition: Partition,
) -> None:
    partition.append(partition.begin())
    partition.end()
    again = partition.append(NO_VERIFICATION)
    assert (again.is_duplicate, again.first_offset) == (True, 0)


def test_a_batch_of_a_fenced_producer_gets_invalid_producer_epoch(partition: Partition) -> None:
    partition.end(epoch=3)
    with expect_error(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.append(NO_VERIFICATION, epoch=2)


def test_the_lowest_pending_sequence_must_be_first(partition: Partition) -> None:
    # Otherwise a retry of the lower one would be out of order permanently.
    assert partition.begin(5) is partition.begin(2)
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        partition.append(partition.begin(5), 5)
    assert partition.append(partition.begin(2), 2).first_offset == 0


def test_a_new_epoch_removes_the_lowest_sequence_of_the_previous_one(partition: Partition) -> None:
    partition.begin(0, epoch=0)
    verification = partition.begin(4, epoch=1)
    assert partition.append(verification, 4, epoch=1).first_offset == 0


def test_a_producer_with_transaction_version_2_starts_with_sequence_0(partition: Partition) -> None:
    verification = partition.begin(3, bumps_epochs=True)
    with expect_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        partition.append(verification, 3)


def test_a_coordinator_batch_without_sequence_is_verified(partition: Partition) -> None:
    with expect_error(ErrorCode.INVALID_TXN_STATE):
        partition.append(NO_VERIFICATION, -1, origin=AppendOrigin.COORDINATOR)
    verification = partition.begin(-1, bumps_epochs=True)
    assert partition.append(verification, -1, origin=AppendOrigin.COORDINATOR).first_offset == 0


def test_pending_verifications_expire_with_their_producers(partition: Partition) -> None:
    verification = partition.begin()
    expiration_ms = partition.log.producers.producer_id_expiration_ms
    partition.log.producers.remove_expired(NOW_MS + expiration_ms - 1)
    assert partition.begin() is verification
    partition.log.producers.remove_expired(NOW_MS + expiration_ms)
    assert partition.begin() is not verification
