"""How long the quorum waits and how much it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Times in ms, sizes in bytes; the first five are `controller.quorum.*` of Apache Kafka."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    snapshot_chunk_max_bytes: int = 8 * 1024 * 1024
    append_max_bytes: int = 8 * 1024 * 1024
    """Largest batch that one `Append` makes."""
    max_wait_ms: int = 5_000
    """No fetch waits longer here, whatever it asks for."""
    parked_fetches_max: int = 1000
    observers_max: int = 1000
    observer_session_timeout_ms: int = 300_000
    """An observer that has not fetched for so long is forgotten."""
    voters_max: int = 63
    voter_change_timeout_ms: int = 30_000
    """Upper bound of how long AddRaftVoter and its like wait to be committed."""
    update_voter_interval_ms: int = 3_000
    auto_join: bool = False
    """`controller.quorum.auto.join.enable`: an observing controller asks to become a voter (KIP-1186)."""
    listener_name: str = "CONTROLLER"
    """The listener of voters that others are told of; the first of `controller.listener.names`."""
