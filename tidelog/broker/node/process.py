"""A process that is one broker: its arguments, its signals, its exit code."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import uvloop

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.environment import CLUSTER_ID_VARIABLE
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.observability.logging_setup import configure_logging
from tidelog.protocol.errors import KafkaError
from tidelog.storage.disk.errors import CorruptFile

EXIT_CONFIG = 2
EXIT_START = 1
EXIT_FAILED = 3

SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the event loop waiting for the interpreter; Python's default is 5 ms.

The loop takes the interpreter several times for each request, while threads copy to a remote store.
"""

GARBAGE_THRESHOLDS = (2_000, 10, 100)
"""Thresholds of the garbage collector, see `gc.set_threshold`; Python's defaults are 700, 10, 10.

A request with 100,000 elements allocates so many objects that the defaults start several full collections,
each of which holds the loop for up to 70 ms. Young collections stay frequent and take about 2 ms.
"""


def load_config(path: str | None, overrides: dict[str, str]) -> BrokerConfig:
    """Settings from a properties file, the environment's KAFKA_ variables, and overrides, the last wins."""
    text = _decoded(Path(path).read_bytes()) if path else ""
    return BrokerConfig.load(text, os.environ, overrides)


Addresses: TypeAlias = Sequence[tuple[str, str, int]]
Announcement: TypeAlias = Callable[[BrokerConfig, Addresses], None]


def announce_ready(config: BrokerConfig, addresses: Addresses) -> None:
    """Say on standard output, in one line, where the broker is reached."""
    places = ", ".join(f"{name}://{host}:{port}" for name, host, port in addresses)
    print(f"broker {config.node_id} is ready on {places}", flush=True)


async def serve(config: BrokerConfig, announce: Announcement = announce_ready) -> bool:
    """Run a broker until SIGTERM or SIGINT, then shut it down cleanly; False when it could not go on."""
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    node = BrokerNode(config, cluster_id=os.environ.get(CLUSTER_ID_VARIABLE))
    ends = [loop.create_task(event.wait()) for event in (asked_to_stop, node.failed)]
    if await _start(node, ends):
        # The objects of the start stay; a search for garbage among them, above all in the models of an S3
        # client, would hold the loop for 40 ms.
        gc.freeze()
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        announce(config, tuple(node.addresses()))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await node.stop()
    for end in ends:
        end.cancel()
    return not node.failed.is_set()


async def _start(node: BrokerNode, ends: Sequence[asyncio.Task[bool]]) -> bool:
    """Start, unless one of `ends` comes first: without a quorum a start may wait for ever."""
    starting = asyncio.get_running_loop().create_task(node.start())
    await asyncio.wait((starting, *ends), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return False
    return True


def _decoded(properties: bytes) -> str:
    """A properties file as text: UTF-8, else ISO-8859-1 as Java reads it, where all bytes are legal."""
    try:
        return properties.decode()
    except UnicodeDecodeError:
        return properties.decode("iso-8859-1")


def run(config_path: str | None, overrides: dict[str, str], announce: Announcement = announce_ready) -> int:
    """Run a broker in this process; the exit code says what kept it from starting."""
    try:
        config = load_config(config_path, overrides)
    except (ConfigError, OSError, ValueError) as error:
        print(f"config: {error}", file=sys.stderr)
        return EXIT_CONFIG
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        ran_well = uvloop.run(serve(config, announce))
    except (ConfigError, KafkaError, CorruptFile, OSError) as error:
        print(f"broker {config.node_id} cannot run: {error}", file=sys.stderr)
        return EXIT_START
    return 0 if ran_well else EXIT_FAILED


def parse_override(text: str) -> tuple[str, str]:
    """`key=value` as a pair; argparse.ArgumentTypeError otherwise."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value.strip()


def main(arguments: Sequence[str] | None = None, program: str = "python -m tidelog.broker") -> int:
    """Parse the arguments (of the process, if none are given) and run."""
    parser = argparse.ArgumentParser(prog=program, description="Run one Tidelog broker.")
    parser.add_argument("--config", metavar="FILE", help="Kafka's server.properties")
    parser.add_argument("--override", action="append", default=[], type=parse_override, metavar="KEY=VALUE")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO")
    given = parser.parse_args(arguments)
    configure_logging(given.log_format, given.log_level)
    return run(given.config, dict(given.override))
