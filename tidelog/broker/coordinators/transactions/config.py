"""The settings of the transaction coordinator."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The settings; each field is the broker key of the same name with underscores for dots."""

    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_load_buffer_size: int
    request_timeout_ms: int
