"""The topic whose remote segments another topic reads by reference: the config `tidelog.source`.

    topic=tides id=EBZs8HyEQV-D2_BDl2WcWg timestamp=1795809770949    a topic of this bucket, as of a time
    topic=tides id=EBZs8HyEQV-D2_BDl2WcWg mount=west                 a topic of another bucket, read-only

It is set when the topic is created and never changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tidelog.base.config_definition import ConfigError, ConfigValue
from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import uuid_from_text, uuid_text

SOURCE_KEY: Final = "tidelog.source"
MOUNT_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,64}")
_ALLOWED: Final = "allowed is topic=NAME id=ID and either timestamp=MILLISECONDS or mount=NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """The topic that is read, and either the time up to which, or the mount in which it is."""

    topic: str
    topic_id: UUID
    timestamp_ms: int | None = None
    mount: str | None = None

    @property
    def text(self) -> str:
        """The value of the config."""
        head = f"topic={self.topic} id={uuid_text(self.topic_id)}"
        return f"{head} timestamp={self.timestamp_ms}" if self.mount is None else f"{head} mount={self.mount}"

    @classmethod
    def parse(cls, text: str) -> TopicSource:
        """Return the source in a config. Errors: ConfigError."""
        parts = dict(part.partition("=")[::2] for part in text.split(" "))
        timestamp, mount = parts.get("timestamp"), parts.get("mount")
        is_time = timestamp is not None and timestamp.isascii() and timestamp.isdigit()
        is_mount = mount is not None and MOUNT_NAME.fullmatch(mount) is not None
        if len(parts) != 3 or not parts.get("topic") or is_time == is_mount:
            raise ConfigError(SOURCE_KEY, text, _ALLOWED)
        try:
            topic_id = uuid_from_text(parts.get("id", ""))
        except ValueError:
            raise ConfigError(SOURCE_KEY, text, _ALLOWED) from None
        return cls(
            topic=parts["topic"],
            topic_id=topic_id,
            timestamp_ms=int(timestamp) if timestamp is not None and is_time else None,
            mount=mount if is_mount else None,
        )


def check_source(value: ConfigValue) -> str | None:
    """Return None if `value` is a source, else which values are allowed."""
    try:
        TopicSource.parse(str(value))
    except ConfigError as error:
        return error.allowed
    return None


def source_of(configs: Mapping[str, str]) -> TopicSource | None:
    """Return the source of a topic with `configs`; None if it has none."""
    text = configs.get(SOURCE_KEY)
    return None if text is None else TopicSource.parse(text)
