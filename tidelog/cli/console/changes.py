"""The changes that a console with --allow-writes makes: topics, records, offsets of groups.

The cluster's authorizer decides about each of them, as for any client. The document of a request is JSON; a
value that is missing or not of its type is an InvalidChangeError, which names it and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, cast

from tidelog.cli.failures import UsageFailure
from tidelog.cli.groups.offsets import reset_group
from tidelog.cli.offset_reset import OffsetReset, ResetMethod
from tidelog.clients.admin.admin import Admin
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError

PARTITIONS_MAX: Final = 10_000
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_METHODS: Final = {
    "earliest": ResetMethod.TO_EARLIEST,
    "latest": ResetMethod.TO_LATEST,
    "offset": ResetMethod.TO_OFFSET,
    "timestamp_ms": ResetMethod.TO_DATETIME,
}
_METHODS_WITH_NUMBER: Final = frozenset({"offset", "timestamp_ms"})


class InvalidChangeError(ValueError):
    """A value of a change cannot be used; the text names it and what is allowed."""


async def create_topic(admin: Admin, document: Mapping[str, Any]) -> dict[str, Any]:
    """Create the topic `name`; -1 for its numbers means the defaults of the cluster. Errors: KafkaError."""
    name = _text(document, "name", is_required=True)
    created = await admin.create_topic(
        name,
        _number(document, "partitions", -1, PARTITIONS_MAX, -1),
        _number(document, "replication_factor", -1, 32_767, -1),
        configs=_texts(document, "configs"),
    )
    return {"name": created.name, "partitions": created.num_partitions}


async def write_record(
    bootstrap: str, options: Mapping[str, Any], topic: str, document: Mapping[str, Any]
) -> dict[str, Any]:
    """Write one record of texts; `partition` -1 is selected by the key. Errors: KafkaError."""
    partition = _number(document, "partition", -1, _INT32_MAX, -1)
    key, value = document.get("key"), document.get("value")
    for name, part in (("key", key), ("value", value)):
        if part is not None and not _is_text(part):
            raise InvalidChangeError(f"{name}={part!r}: allowed is a text or null")
    headers = [(name, text.encode()) for name, text in _texts(document, "headers").items()]
    async with Producer(bootstrap, **options) as producer:
        written = await producer.send_and_wait(
            topic,
            None if value is None else value.encode(),
            key=None if key is None else key.encode(),
            partition=None if partition < 0 else partition,
            headers=headers,
        )
    return {"partition": written.partition, "offset": written.offset}


async def reset_offsets(admin: Admin, group: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Reset the offsets of a group without members in one topic, or only plan it without `execute`.

    `to` is earliest, latest, offset or timestamp_ms; the last two are the value `number`. Errors: KafkaError.
    """
    to = _text(document, "to", is_required=True)
    if to not in _METHODS:
        raise InvalidChangeError(f"to={to}: allowed are {', '.join(_METHODS)}")
    topic = _text(document, "topic", is_required=True)
    number = _number(document, "number", 0, _INT64_MAX, None if to in _METHODS_WITH_NUMBER else 0)
    reset = OffsetReset(_METHODS[to], number)
    try:
        plan, results = await reset_group(
            admin, group, [topic], reset, execute=document.get("execute") is True
        )
    except UsageFailure as failure:
        raise InvalidChangeError(str(failure)) from None
    for error in results.values():
        if isinstance(error, KafkaError):
            raise error
    return {"is_executed": bool(results), "partitions": [asdict(entry) for entry in plan]}


def _text(document: Mapping[str, Any], name: str, *, is_required: bool) -> str:
    text = document.get(name, "")
    if not _is_text(text) or (is_required and not text):
        raise InvalidChangeError(f"{name}={text!r}: allowed is a text")
    return cast(str, text)


def _texts(document: Mapping[str, Any], name: str) -> dict[str, str]:
    texts = document.get(name) or {}
    if not isinstance(texts, dict) or not all(map(_is_text, (*texts, *texts.values()))):
        raise InvalidChangeError(f"{name}: allowed is an object of texts")
    return texts


def _is_text(value: object) -> bool:
    """Return whether a value is a text that can be encoded: JSON may have half of a character."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _number(document: Mapping[str, Any], name: str, lowest: int, highest: int, default: int | None) -> int:
    """Return a number; without one, `default`, or an error if that is None."""
    number = document.get(name)
    if number is None and default is not None:
        return default
    if type(number) is not int or not lowest <= number <= highest:
        raise InvalidChangeError(f"{name}={number!r}: allowed are {lowest} to {highest}")
    return number
