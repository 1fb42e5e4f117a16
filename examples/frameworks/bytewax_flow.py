"""Bytewax: a dataflow that reads a topic, multiplies each number, and writes another topic."""

from __future__ import annotations

import sys

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

NUMBERS = range(5)
servers = sys.argv[1]
admin = AdminClient({"bootstrap.servers": servers})
for created in admin.create_topics([NewTopic("bytewax-in", 1), NewTopic("bytewax-out", 1)]).values():
    created.result()
producer = Producer({"bootstrap.servers": servers})
for number in NUMBERS:
    producer.produce("bytewax-in", str(number).encode())
producer.flush()

flow = Dataflow("multiply")
source = kafka.input("read", flow, brokers=[servers], topics=["bytewax-in"], tail=False)
multiplied = op.map(
    "multiply", source.oks, lambda message: KafkaSinkMessage(None, str(10 * int(message.value)).encode())
)
kafka.output("write", multiplied, brokers=[servers], topic="bytewax-out")
run_main(flow)

consumer = Consumer({"bootstrap.servers": servers, "group.id": "bytewax", "auto.offset.reset": "earliest"})
consumer.subscribe(["bytewax-out"])
results = []
while len(results) < len(NUMBERS):
    message = consumer.poll(30)
    if message is None:
        break
    results.append(int(message.value()))
consumer.close()
print("results", sorted(results))
