"""Timeouts and bounds of the metadata quorum."""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of a batch of the metadata log; `KafkaRaftClient.MAX_BATCH_SIZE_BYTES` of Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The settings of the quorum, with times in ms and sizes in bytes.

    The fields without a default are the values of `controller.quorum.*`.
    """

    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    fetch_max_bytes: int
    snapshot_chunk_max_bytes: int
    auto_join: bool
    """`controller.quorum.auto.join.enable`: a controller that is an observer joins the voters (KIP-1186)."""
    listener_name: str
    """The default listener of voters: the first of `controller.listener.names`."""
    fetch_max_wait_ms: int = 500
    append_max_bytes: int = MAX_BATCH_BYTES
    """The largest batch that one `Append` creates."""
    max_wait_ms: int = 5_000
    """The maximum time for which the leader delays a Fetch response, even if the request allows more."""
    parked_fetches_max: int = 1000
    observers_max: int = 1000
    observer_session_timeout_ms: int = 300_000
    """The time without a fetch after which the leader removes an observer."""
    voters_max: int = 63
    voter_change_timeout_ms: int = 30_000
    """The maximum time for which AddRaftVoter and RemoveRaftVoter wait until their record is committed."""
    update_voter_interval_ms: int = 3_000

    @property
    def check_quorum_timeout_ms(self) -> int:
        """The time within which a majority must fetch from the leader: 1.5 fetch timeouts, as in Kafka."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """The time between two BeginQuorumEpoch requests to a voter that does not fetch."""
        return max(1, self.fetch_timeout_ms // 2)
