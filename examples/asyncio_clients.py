"""Tidelog's own clients: a transaction that writes to two topics, and a group that reads both."""

from __future__ import annotations

import asyncio
import sys

from tidelog import Consumer, Producer


async def write(servers: str) -> None:
    """Write an order and its payment, both or none."""
    async with Producer(servers, transactional_id="orders-service") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("orders", b"two boats", key=b"order-1")
            await producer.send("payments", b"80 EUR", key=b"order-1")


async def read(servers: str) -> None:
    """Read both records as a member of a group, and commit their offsets."""
    options = {"group_id": "accounting", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(servers, **options) as consumer:
        consumer.subscribe(["orders", "payments"])
        seen = 0
        while seen < 2:
            for records in (await consumer.poll()).values():
                for record in records:
                    print(f"{record.topic}: {(record.key or b'').decode()} {(record.value or b'').decode()}")
                    seen += 1
        await consumer.commit()


async def main(servers: str) -> None:
    """Write, then read."""
    await write(servers)
    await read(servers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
