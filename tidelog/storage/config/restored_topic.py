"""The identity of a topic that is created again for its segments in remote storage.

A restore creates the topic with configs that only the controller reads, and that are never stored:

| key | |
|---|---|
| tidelog.restore.topic.id | the topic id of the segments |
| tidelog.restore.leader.epoch | the first leader epoch, above every epoch in remote storage |
| tidelog.restore.next.producer.id | the lowest producer id that may be allocated from now on |

A controller that does not know these keys, such as Apache Kafka's, rejects them as unknown topic configs. It
never creates the topic with another id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch, ProducerId, uuid_from_text, uuid_text

RESTORE_PREFIX: Final = "tidelog.restore."
TOPIC_ID_KEY: Final = f"{RESTORE_PREFIX}topic.id"
LEADER_EPOCH_KEY: Final = f"{RESTORE_PREFIX}leader.epoch"
NEXT_PRODUCER_ID_KEY: Final = f"{RESTORE_PREFIX}next.producer.id"
RESTORE_KEYS: Final = frozenset({TOPIC_ID_KEY, LEADER_EPOCH_KEY, NEXT_PRODUCER_ID_KEY})

_RESERVED_ID_MAX: Final = 1
_EPOCH_MAX: Final = 2**31 - 2
_PRODUCER_ID_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """The id, the first leader epoch and the lowest new producer id of a restored topic."""

    topic_id: UUID
    leader_epoch: LeaderEpoch
    next_producer_id: ProducerId

    @property
    def configs(self) -> dict[str, str]:
        """These values as configs of a topic to create."""
        return {
            TOPIC_ID_KEY: uuid_text(self.topic_id),
            LEADER_EPOCH_KEY: str(self.leader_epoch),
            NEXT_PRODUCER_ID_KEY: str(self.next_producer_id),
        }

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> RestoredTopic | None:
        """Return the values in `configs`; None if no key begins with `tidelog.restore.`.

        Errors: ConfigError.
        """
        own = {key: text for key, text in configs.items() if key.startswith(RESTORE_PREFIX)}
        if not own:
            return None
        for key, text in own.items():
            if key not in RESTORE_KEYS:
                raise ConfigError(key, text, "there is no topic config of this name")
        return cls(
            topic_id=_topic_id(own.get(TOPIC_ID_KEY, "")),
            leader_epoch=_number(LEADER_EPOCH_KEY, own.get(LEADER_EPOCH_KEY, ""), _EPOCH_MAX),
            next_producer_id=_number(
                NEXT_PRODUCER_ID_KEY, own.get(NEXT_PRODUCER_ID_KEY, ""), _PRODUCER_ID_MAX
            ),
        )


def _topic_id(text: str) -> UUID:
    try:
        topic_id = uuid_from_text(text)
    except ValueError:
        raise ConfigError(TOPIC_ID_KEY, text, "allowed is a topic id of 22 characters") from None
    if topic_id.int <= _RESERVED_ID_MAX:
        raise ConfigError(TOPIC_ID_KEY, text, "this id is reserved")
    return topic_id


def _number(key: str, text: str, maximum: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > maximum:
        raise ConfigError(key, text, f"allowed are 0 to {maximum}")
    return int(text)
