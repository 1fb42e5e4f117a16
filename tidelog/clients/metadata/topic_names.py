"""The check of topic names before they are sent; the broker checks whether they are valid."""

from __future__ import annotations

from typing import Final

from tidelog.protocol.errors import ErrorCode, KafkaError

_LONGEST: Final = 249


def require_topic_name(topic: object) -> None:
    """Raise an error for a name that would make every metadata request fail, also for other topics.

    Errors: TypeError if it is not a string; KafkaError(INVALID_TOPIC_EXCEPTION) if it is empty, longer than
    Kafka's 249 characters, or cannot be encoded.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic={topic!r} is a {type(topic).__name__}, expected a str")
    if not topic or len(topic) > _LONGEST or not _is_encodable(topic):
        text = f"topic name {topic[:60]!r} is invalid: names have 1 to {_LONGEST} characters"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _is_encodable(topic: str) -> bool:
    try:
        topic.encode()
    except UnicodeEncodeError:
        return False
    return True
