"""aiokafka's clients: produce and consume in one event loop."""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(servers: str) -> None:
    """Write two events, and read them again."""
    async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer:
        for event in (b"arrived", b"moored"):
            await producer.send_and_wait("events", event, key=b"ship-3")
    consumer = AIOKafkaConsumer("events", bootstrap_servers=servers, auto_offset_reset="earliest")
    async with consumer:
        for _ in range(2):
            record = await consumer.getone()
            print(f"read: {record.key.decode()} {record.value.decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
