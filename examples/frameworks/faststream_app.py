"""FastStream: a service that reads orders and writes invoices."""

from __future__ import annotations

import asyncio
import sys

from faststream import FastStream
from faststream.confluent import KafkaBroker

ORDERS = 5
broker = KafkaBroker(sys.argv[1])
app = FastStream(broker)
received: list[dict[str, int]] = []


@broker.subscriber("faststream-orders", group_id="faststream-billing", auto_offset_reset="earliest")
@broker.publisher("faststream-invoices")
async def bill(order: dict[str, int]) -> dict[str, int]:
    """Return the invoice of an order."""
    return {"order": order["id"], "total": order["price"] * order["count"]}


@broker.subscriber("faststream-invoices", group_id="faststream-archive", auto_offset_reset="earliest")
async def archive(invoice: dict[str, int]) -> None:
    """Store an invoice; end the service after the last one."""
    received.append(invoice)
    if len(received) == ORDERS:
        app.exit()


@app.after_startup
async def order() -> None:
    """Send some orders."""
    for number in range(ORDERS):
        await broker.publish({"id": number, "price": 10, "count": number}, "faststream-orders")


if __name__ == "__main__":
    asyncio.run(app.run())
    print("invoices", sorted(invoice["total"] for invoice in received))
