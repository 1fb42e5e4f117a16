"""How a query reads what is in remote storage: `tier`, and where that storage is.

| option | says |
|---|---|
| tier | `broker`: through brokers; `direct`: straight from the object store, brokers give the rest; `offline`: from the object store alone |
| rsm.config.* | the store, by the names that brokers have for it |
| maxBytesPerPartition | bytes of remote segments that one task reads |
| tierTopicIds | offline: JSON of topic ids, for topics that were deleted and made again |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final
from uuid import UUID

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
    """Who reads remote segments."""

    BROKER = "broker"
    DIRECT = "direct"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class TierOptions:
    """`storage`: the configuration of the storage manager, by sorted keys without `rsm.config.`."""

    mode: TierMode = TierMode.BROKER
    storage: tuple[tuple[str, str], ...] = ()
    topic_ids: tuple[tuple[str, UUID], ...] = ()
    max_bytes_per_partition: int = MAX_BYTES_PER_PARTITION

    @property
    def reads_segments(self) -> bool:
        """Whether executors read remote segments."""
        return self.mode is not TierMode.BROKER


def read_tier_options(values: Mapping[str, str]) -> TierOptions:
    """The options among `values`, whose names are in lower case; OptionError naming the one that is wrong."""
    mode = TierMode(read_choice("tier", values.get("tier", "broker"), tuple(TierMode)))
    if mode is not TierMode.OFFLINE and "tiertopicids" in values:
        raise OptionError(
            f"option tierTopicIds has no effect with tier={mode}: brokers know the ids of topics"
        )
    if mode is TierMode.BROKER:
        # Where the store is may stand beside it, so that a job can be switched by one option.
        if "maxbytesperpartition" in values:
            raise OptionError(
                "option maxBytesPerPartition has no effect with tier=broker: "
                "expected tier direct or offline, or maxRecordsPerPartition"
            )
        return TierOptions()
    most = values.get("maxbytesperpartition")
    return TierOptions(
        mode=mode,
        storage=tuple(sorted(read_storage_values(values, f"tier={mode}").items())),
        topic_ids=_topic_ids(values.get("tiertopicids")),
        max_bytes_per_partition=(
            MAX_BYTES_PER_PARTITION if most is None else read_number("maxBytesPerPartition", most, 1)
        ),
    )


def read_storage_values(values: Mapping[str, str], wanted_by: str) -> dict[str, str]:
    """The configuration of the storage manager, by its keys; `wanted_by` is who needs it.

    A broker's chunk cache is left out: here a slice is read once, and its path is for the broker's machine.
    Errors: OptionError.
    """
    # Imports cryptography, which queries through brokers do not need.
    from tidelog.remote.objects.config import CONFIGS, unknown_keys

    own = {name.removeprefix(STORAGE_PREFIX): text for name, text in values.items() if _is_storage(name)}
    own = _with_key_pair_ids({key: text for key, text in own.items() if not key.startswith(_CHUNK_CACHE)})
    if _BACKEND not in own:
        allowed = CONFIGS[_BACKEND].documentation
        raise OptionError(f"option {STORAGE_PREFIX}{_BACKEND} is needed with {wanted_by}: {allowed}")
    for key in unknown_keys(own):
        near = get_close_matches(key, CONFIGS, n=2) or [*CONFIGS]
        raise OptionError(
            f"there is no option {STORAGE_PREFIX}{key}: expected rsm.config.storage.* or one of "
            f"{', '.join(STORAGE_PREFIX + name for name in near)}"
        )
    return own


def _is_storage(name: str) -> bool:
    return name.startswith(STORAGE_PREFIX)


def _with_key_pair_ids(values: dict[str, str]) -> dict[str, str]:
    """Spark gives option names in lower case; ids of key pairs stand in names and may have other letters."""
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
    found = []
    for topic, topic_id in read_json_object("tierTopicIds", text, _IDS_EXAMPLE).items():
        try:
            found.append((topic, uuid_from_text(topic_id)))
        except (ValueError, TypeError, AttributeError):
            raise OptionError.of("tierTopicIds", text, f"JSON such as {_IDS_EXAMPLE}") from None
    return tuple(found)
