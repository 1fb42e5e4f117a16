"""Creates the topics of the workloads."""

from __future__ import annotations

from typing import Final

from tidelog.clients.admin.admin import Admin, NewTopic
from tidelog.protocol.errors import KafkaError
from tidelog.testing.simulation.process import Process

TOPIC: Final = "records"
"""The topic whose records are never deleted."""


async def create_topic(process: Process, servers: str, topic: NewTopic) -> None:
    """Create a topic, which may exist because an earlier attempt had no response."""
    while True:
        try:
            async with Admin(servers, environment=process.environment) as admin:
                for result in (await admin.create_topics([topic])).values():
                    if isinstance(result, KafkaError):
                        raise result
                return
        except KafkaError as error:
            if error.code.name == "TOPIC_ALREADY_EXISTS":
                return
