"""Checks resource names that must be the id of this node. Errors: KafkaError INVALID_REQUEST."""

from __future__ import annotations

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId


def check_broker_name(node_id: BrokerId, name: str) -> None:
    """Check that `name` is the id of this broker, or empty for all brokers."""
    if name:
        check_own_id(node_id, name, f"{node_id} or empty string")


def check_own_id(node_id: BrokerId, name: str, expected: str) -> None:
    """Check that `name` is the id of this node; the error has the text `expected`."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if not (name.isascii() and name.isdecimal()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(node_id):
        text = f"Unexpected broker id, expected {expected}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
