"""The options for reading remote storage: how a query reads it, and where it is.

| option | value |
|---|---|
| tier | `broker`: through brokers; `direct`: remote segments from the object store, the rest from brokers; `offline`: from the object store alone |
| rsm.config.* | the store, with the keys of the broker configuration |
| maxBytesPerPartition | bytes of remote segments that one task reads |
| tierTopicIds | offline: JSON of topic ids, for topics that were deleted and re-created |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.base.similar_names import similar_names
from tidelog.protocol.ids import uuid_from_text
from tidelog.spark_connector.planning.option_values import (
    OptionError,
    read_choice,
    read_json_object,
    read_number,
)

STORAGE_PREFIX: Final = "rsm.config."
TIER_OPTIONS: Final = ("tier", "maxBytesPerPartition", "tierTopicIds")
MAX_BYTES_PER_PARTITION: Final = 128 * 1024 * 1024

_BACKEND: Final = "storage.backend.class"
_CHUNK_CACHE: Final = "fetch.chunk.cache."
_KEY_PAIRS: Final = "encryption.key.pairs"
_IDS_EXAMPLE: Final = '{"topic":"Tdp2tVVEQRyNbGkMfLw3dQ"}'


class TierMode(StrEnum):
    """How remote segments are read."""

    BROKER = "broker"
    DIRECT = "direct"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class TierOptions:
    """The tier options of a query; `storage` has the sorted keys and values without `rsm.config.`."""

    mode: TierMode = TierMode.BROKER
    storage: tuple[tuple[str, str], ...] = ()
    topic_ids: tuple[tuple[str, UUID], ...] = ()
    max_bytes_per_partition: int = MAX_BYTES_PER_PARTITION

    @property
    def reads_segments(self) -> bool:
        """Whether executors read remote segments."""
        return self.mode is not TierMode.BROKER


def read_tier_options(values: Mapping[str, str]) -> TierOptions:
    """Return the tier options in `values`, whose names are in lower case. Errors: OptionError."""
    mode = TierMode(read_choice("tier", values.get("tier", "broker"), tuple(TierMode)))
    if mode is not TierMode.OFFLINE and "tiertopicids" in values:
        raise OptionError(
            f"option tierTopicIds has no effect with tier={mode}: brokers know the ids of topics"
        )
    if mode is TierMode.BROKER:
        # The location of the store is allowed here, so that one option switches a job.
        if "maxbytesperpartition" in values:
            raise OptionError(
                "option maxBytesPerPartition has no effect with tier=broker: "
                "expected tier direct or offline, or maxRecordsPerPartition"
            )
        return TierOptions()
    max_bytes = values.get("maxbytesperpartition")
    return TierOptions(
        mode=mode,
        storage=tuple(sorted(read_storage_values(values, f"tier={mode}").items())),
        topic_ids=_topic_ids(values.get("tiertopicids")),
        max_bytes_per_partition=(
            MAX_BYTES_PER_PARTITION
            if max_bytes is None
            else read_number("maxBytesPerPartition", max_bytes, 1)
        ),
    )


def read_storage_values(values: Mapping[str, str], requiring_option: str) -> dict[str, str]:
    """Return the configuration of the storage manager; `requiring_option` names the option that requires it.

    The chunk cache of a broker is ignored: a slice is read once here, and the cache is on another machine.
    Errors: OptionError.
    """
    # This imports cryptography, which queries through brokers do not need.
    from tidelog.remote.objects.config import CONFIGS, unknown_keys

    values_by_key = {
        name.removeprefix(STORAGE_PREFIX): text for name, text in values.items() if _is_storage(name)
    }
    values_by_key = _with_key_pair_ids(
        {key: text for key, text in values_by_key.items() if not key.startswith(_CHUNK_CACHE)}
    )
    if _BACKEND not in values_by_key:
        allowed = CONFIGS[_BACKEND].documentation
        raise OptionError(
            f"Missing option: {STORAGE_PREFIX}{_BACKEND}; it is required with {requiring_option}: {allowed}"
        )
    for key in unknown_keys(values_by_key):
        similar = similar_names(key, CONFIGS) or [*CONFIGS]
        raise OptionError(
            f"Unknown option: {STORAGE_PREFIX}{key}; expected rsm.config.storage.* or one of "
            f"{', '.join(STORAGE_PREFIX + name for name in similar)}"
        )
    return values_by_key


def _is_storage(name: str) -> bool:
    return name.startswith(STORAGE_PREFIX)


def _with_key_pair_ids(values: dict[str, str]) -> dict[str, str]:
    """Restore the case of key pair ids, which are part of option names; Spark passes names in lower case."""
    for pair_id in filter(None, map(str.strip, values.get(_KEY_PAIRS, "").split(","))):
        prefix = f"{_KEY_PAIRS}.{pair_id}."
        values = {
            prefix + key[len(prefix) :] if key.lower().startswith(prefix.lower()) else key: text
            for key, text in values.items()
        }
    return values


def _topic_ids(text: str | None) -> tuple[tuple[str, UUID], ...]:
    if text is None:
        return ()
    topic_ids = []
    for topic, topic_id in read_json_object("tierTopicIds", text, _IDS_EXAMPLE).items():
        try:
            topic_ids.append((topic, uuid_from_text(topic_id)))
        except (ValueError, TypeError, AttributeError):
            raise OptionError.of("tierTopicIds", text, f"JSON such as {_IDS_EXAMPLE}") from None
    return tuple(topic_ids)
