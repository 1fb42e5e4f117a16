"""An acks=all produce request that waits until every in-sync replica has its records."""

from __future__ import annotations

from dataclasses import dataclass

from broker.network.request import Request
from broker.partition import Partition
from broker.purgatory.purgatory import DelayedOperation
from protocol.errors import ErrorCode
from protocol.ids import Offset
from protocol.produce_view import ProducePartition, ProducePartitionResult, encode_produce_response


@dataclass(slots=True)
class Appended:
    """One partition's records in the leader's log: committed once `required_offset` is reached."""

    partition: Partition
    required_offset: Offset
    result: ProducePartitionResult

    @property
    def is_committed(self) -> bool:
        """Whether every in-sync replica has the records."""
        return self.partition.log.high_watermark >= self.required_offset


class DelayedProduce(DelayedOperation):
    """Complete when every partition's high watermark has passed what was appended to it.

    At the deadline, what is still missing is answered REQUEST_TIMED_OUT: the records are in
    the leader's log and may yet be committed.
    """

    def __init__(
        self,
        request: Request,
        delay_ms: int,
        results: list[tuple[ProducePartition, ProducePartitionResult]],
        appended: list[Appended],
    ) -> None:
        super().__init__(delay_ms)
        self._request = request
        self._results = results
        self._appended = appended

    def try_complete(self) -> bool:
        """Answer if nothing is missing any more."""
        if not all(one.is_committed for one in self._appended):
            return False
        return self.force_complete()

    def on_complete(self) -> None:
        """Answer; whatever is not committed at this moment has timed out."""
        for one in self._appended:
            if not one.is_committed:
                one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        header = self._request.header
        self._request.respond(
            encode_produce_response(header.api_version, header.correlation_id, self._results)
        )

    def on_failure(self, error: Exception) -> None:
        """Answer that it is not known whether the records will be committed."""
        self._request.fail(error)
