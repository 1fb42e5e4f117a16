"""The options of a share consumer, with Kafka's names and defaults."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.options import (
    ConfigError,
    require_between,
    require_bool,
    require_one_of,
    require_text,
)

_INT32_MAX = 2**31 - 1
IMPLICIT = "implicit"
EXPLICIT = "explicit"
RECORD_LIMIT = "record_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """The options of a share consumer.

    `share_acknowledgement_mode`: "implicit" accepts all records of a `poll` with the next call; "explicit"
    requires an `acknowledge` for each record. `share_acquire_mode`: "batch_optimized" may return more than
    `max_poll_records` records, because it acquires whole batches; "record_limit" does not.
    """

    group_id: str | None = None
    allow_auto_create_topics: bool = True
    check_crcs: bool = True
    client_rack: str = ""
    default_api_timeout_ms: int = 60_000
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    share_acknowledgement_mode: str = IMPLICIT
    share_acquire_mode: str = "batch_optimized"
    max_decompressed_bytes: int = 268_435_456

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if not self.group_id:
            raise ConfigError("group_id", self.group_id, "a name of at least one character")
        require_text("group_id", self.group_id)
        require_one_of("share_acknowledgement_mode", self.share_acknowledgement_mode, (IMPLICIT, EXPLICIT))
        require_one_of("share_acquire_mode", self.share_acquire_mode, ("batch_optimized", RECORD_LIMIT))
        for option in ("allow_auto_create_topics", "check_crcs"):
            require_bool(option, getattr(self, option))
        for option in ("default_api_timeout_ms", "fetch_max_bytes", "fetch_max_wait_ms", "fetch_min_bytes"):
            require_between(option, getattr(self, option), 0, _INT32_MAX)
        for option in ("max_poll_interval_ms", "max_poll_records", "max_decompressed_bytes"):
            require_between(option, getattr(self, option), 1, _INT32_MAX)

    @property
    def is_explicit(self) -> bool:
        """Whether the application acknowledges each record."""
        return self.share_acknowledgement_mode == EXPLICIT
