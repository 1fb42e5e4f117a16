"""A cluster with hostile contents, and the console as a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.paths import ROOT
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.clients.share_consumer.share_consumer import ShareConsumer
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

HOSTILE = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
"""Text that would run as a script if it were inserted as HTML; the id of a group, and parts of a record."""
SHARE_GROUP = "workers"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a node with the tiered topic tides, whose last records are hostile or no text, and two groups."""
    with EmbeddedCluster(tiered=True) as cluster:
        cluster.create_topics({"tides": 2}, {"remote.storage.enable": "true"})

        async def fill() -> None:
            async with Producer(cluster.bootstrap_servers) as producer:
                for number in range(100):
                    key, value = b"key-%d" % number, b'{"number": %d}' % number
                    await producer.send("tides", value, key=key, partition=0)
                text = HOSTILE.encode()
                await producer.send("tides", text, key=text, headers=[(HOSTILE, text)], partition=0)
                await producer.send("tides", b"\xff\x00", partition=0)
                await producer.send("tides", None, key=b"gone", partition=0)
            async with Consumer(cluster.bootstrap_servers, group_id=HOSTILE, client_id=HOSTILE) as consumer:
                await consumer.commit({TopicPartition("tides", 0): 60})
            async with ShareConsumer(cluster.bootstrap_servers, group_id=SHARE_GROUP) as share_consumer:
                share_consumer.subscribe(["tides"])
                await share_consumer.poll()

        asyncio.run(fill())
        yield cluster


@contextmanager
def running_console(bootstrap: str, *arguments: str) -> Iterator[str]:
    """Run the command until the end of the block; yield the address that it prints."""
    command = [sys.executable, "-m", "tidelog.cli.main", "console", "-p", "0", "-b", bootstrap, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def address(cluster: EmbeddedCluster) -> Iterator[str]:
    """Run the console of the cluster; return its address with the token."""
    with running_console(cluster.bootstrap_servers) as printed:
        yield printed
