"""A transaction begins in a log only with a batch that was verified; a verification serves one (KIP-890)."""

from __future__ import annotations

import pytest

from tests.support.disks.crash_file_system import CrashFileSystem
from tests.support.logs.partition_logs import NOW_MS, batch, end_marker, open_log
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.log.partition_log import AppendInfo, PartitionLog
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification

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


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def test_a_verified_batch_opens_the_transaction_and_those_behind_it_need_nothing(
    partition: Partition,
) -> None:
    assert partition.append(partition.begin()).first_offset == 0
    assert partition.begin(1) is None
    assert partition.append(NO_VERIFICATION, 1).first_offset == 1


def test_a_batch_that_was_not_verified_is_refused(partition: Partition) -> None:
    with refused(ErrorCode.INVALID_TXN_STATE):
        partition.append(NO_VERIFICATION)
    assert partition.log.log_end_offset == 0


def test_a_marker_that_comes_before_the_response_has_the_batch_sent_and_verified_again(
    partition: Partition,
) -> None:
    verification = partition.begin()
    partition.end()
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification)
    assert partition.append(partition.begin()).first_offset == 1


def test_the_marker_of_the_transaction_before_does_not_end_the_verification_of_the_next(
    partition: Partition,
) -> None:
    # transaction.version 2: both have the same epoch, as the marker has the epoch after its transaction's.
    partition.append(partition.begin(bumps_epochs=True))
    verification = partition.begin(epoch=1, bumps_epochs=True)
    partition.end(epoch=1, transaction_version=2)
    assert partition.append(verification, epoch=1).first_offset == 2


def test_the_marker_of_the_verified_transaction_lets_no_batch_in(partition: Partition) -> None:
    partition.append(partition.begin(bumps_epochs=True))
    verification = partition.begin(epoch=1, bumps_epochs=True)
    partition.end(epoch=1, transaction_version=2)
    partition.end(epoch=2, transaction_version=2)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.append(verification, epoch=1)
    assert partition.begin(epoch=2, bumps_epochs=True) is not verification


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_a_marker_that_may_be_of_the_verified_transaction_ends_the_verification(
    partition: Partition, transaction_version: int
) -> None:
    # A client that ends by version 1 what it began by version 2, or a coordinator that does not say.
    partition.append(partition.begin(bumps_epochs=True))
    verification = partition.begin(epoch=1, bumps_epochs=True)
    partition.end(epoch=1, transaction_version=transaction_version)
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification, epoch=1)


def test_a_marker_of_the_highest_epoch_ends_every_verification(partition: Partition) -> None:
    verification = partition.begin(epoch=32767, bumps_epochs=True)
    partition.end(epoch=32767, transaction_version=2)
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification, epoch=32767)


def test_a_higher_epoch_that_was_only_asked_for_keeps_no_verification_of_a_lower_one(
    partition: Partition,
) -> None:
    verification = partition.begin(epoch=0)
    assert partition.begin(epoch=9) is verification
    partition.end(epoch=1, transaction_version=2)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.append(verification, epoch=0)


def test_a_batch_of_a_replaced_producer_begins_no_verification(partition: Partition) -> None:
    partition.end(epoch=3)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.begin(epoch=2)
    assert partition.begin(epoch=3) is not None


def test_a_cut_of_the_log_ends_verifications(partition: Partition) -> None:
    partition.append(None, epoch=0)
    verification = partition.begin(epoch=1)
    partition.log.truncate_to(0)
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(verification, epoch=1)


def test_an_answer_for_an_earlier_transaction_lets_nothing_into_a_later_one(partition: Partition) -> None:
    earlier = partition.begin()
    partition.end()
    later = partition.begin()
    assert later is not earlier
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.append(earlier)
    assert partition.append(later).first_offset == 1


def test_a_batch_for_a_transaction_that_ended_meanwhile_is_refused(partition: Partition) -> None:
    partition.append(partition.begin())
    assert partition.begin(1) is None
    partition.end()
    with refused(ErrorCode.INVALID_TXN_STATE):
        partition.append(NO_VERIFICATION, 1)


def test_a_repeated_batch_of_an_ended_transaction_is_answered_as_the_duplicate_it_is(
    partition: Partition,
) -> None:
    partition.append(partition.begin())
    partition.end()
    again = partition.append(NO_VERIFICATION)
    assert (again.is_duplicate, again.first_offset) == (True, 0)


def test_a_batch_of_a_replaced_producer_learns_of_its_epoch_first(partition: Partition) -> None:
    partition.end(epoch=3)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.append(NO_VERIFICATION, epoch=2)


def test_the_lowest_sequence_that_wants_in_must_be_the_first(partition: Partition) -> None:
    # Else the lower one, when it is sent again, is out of order for ever.
    assert partition.begin(5) is partition.begin(2)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        partition.append(partition.begin(5), 5)
    assert partition.append(partition.begin(2), 2).first_offset == 0


def test_a_new_epoch_forgets_the_lowest_sequence_of_the_former_one(partition: Partition) -> None:
    partition.begin(0, epoch=0)
    verification = partition.begin(4, epoch=1)
    assert partition.append(verification, 4, epoch=1).first_offset == 0


def test_a_producer_with_an_epoch_per_transaction_begins_with_sequence_0(partition: Partition) -> None:
    verification = partition.begin(3, bumps_epochs=True)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        partition.append(verification, 3)


def test_a_coordinators_batch_has_no_sequence_and_is_verified_all_the_same(partition: Partition) -> None:
    with refused(ErrorCode.INVALID_TXN_STATE):
        partition.append(NO_VERIFICATION, -1, origin=AppendOrigin.COORDINATOR)
    verification = partition.begin(-1, bumps_epochs=True)
    assert partition.append(verification, -1, origin=AppendOrigin.COORDINATOR).first_offset == 0


def test_verifications_that_lead_to_nothing_are_forgotten_with_their_producers(partition: Partition) -> None:
    verification = partition.begin()
    expiration_ms = partition.log.producers.producer_id_expiration_ms
    partition.log.producers.remove_expired(NOW_MS + expiration_ms - 1)
    assert partition.begin() is verification
    partition.log.producers.remove_expired(NOW_MS + expiration_ms)
    assert partition.begin() is not verification
