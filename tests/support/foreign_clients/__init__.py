"""Clients of other projects and the bundled clients behind one interface; a test uses each of them."""

from __future__ import annotations

from tests.support.foreign_clients.aiokafka_client import AIOKAFKA
from tests.support.foreign_clients.confluent_client import CONFLUENT
from tests.support.foreign_clients.interface import (
    ForeignAdmin,
    ForeignClient,
    ForeignConsumer,
    ForeignError,
    ForeignProducer,
    GroupView,
    Message,
    Receipt,
    Received,
)
from tests.support.foreign_clients.kafka_python_client import KAFKA_PYTHON
from tests.support.foreign_clients.tidelog_client import TIDELOG

CLIENTS: dict[str, ForeignClient] = {
    client.name: client for client in (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, TIDELOG)
}

__all__ = [
    "CLIENTS",
    "ForeignAdmin",
    "ForeignClient",
    "ForeignConsumer",
    "ForeignError",
    "ForeignProducer",
    "GroupView",
    "Message",
    "Receipt",
    "Received",
]
