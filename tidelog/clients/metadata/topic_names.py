"""Topic names that may go into a request; whether they are legal, the broker says."""

from __future__ import annotations

from typing import Final

from tidelog.protocol.errors import ErrorCode, KafkaError

_LONGEST: Final = 249


def require_topic_name(topic: object) -> None:
    """Refuse what would spoil every request for metadata, also those for other topics.

    Errors: TypeError for what is no text; KafkaError(INVALID_TOPIC_EXCEPTION) for an empty name, for one over
    Kafka's 249 characters, and for one that cannot be encoded.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic={topic!r} is a {type(topic).__name__}, expected a str")
    if not topic or len(topic) > _LONGEST or not _is_encodable(topic):
        text = f"{topic[:60]!r} is no topic's name: those have 1 to {_LONGEST} characters"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _is_encodable(topic: str) -> bool:
    try:
        topic.encode()
    except UnicodeEncodeError:
        return False
    return True
