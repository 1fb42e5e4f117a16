"""The process of one node: its arguments, signals and exit codes."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import uvloop

from tidelog.base.allocator import keep_freed_memory
from tidelog.base.config_definition import ConfigError
from tidelog.base.version import package_version
from tidelog.broker.config.environment import CLUSTER_ID_VARIABLE
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.descriptor_budget import raise_open_file_limit, reserve_descriptor_table
from tidelog.broker.node.garbage_collection import GarbageCollection
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_context import NodeFailure
from tidelog.broker.observability.logging_setup import configure_logging
from tidelog.broker.observability.start_banner import keys_without_effect, start_banner
from tidelog.protocol.errors import KafkaError
from tidelog.storage.disk.errors import CorruptFile

logger = logging.getLogger(__name__)

EXIT_START: Final = 1
EXIT_CONFIG: Final = 2
EXIT_FAILED: Final = 3

SWITCH_INTERVAL_S: Final = 0.0005
"""The longest time that another thread keeps the interpreter lock; Python's default is 5 ms.

The event loop acquires the lock several times for each request, while threads copy to a remote store.
"""


def load_config(path: str | None, overrides: dict[str, str]) -> BrokerConfig:
    """Return the configuration; `overrides` replace the environment (KAFKA_), which replaces the file."""
    text = _decode(Path(path).read_bytes()) if path else ""
    return BrokerConfig.load(text, os.environ, overrides)


Addresses: TypeAlias = Sequence[tuple[str, str, int]]
"""Name, host and port of each listener."""

Announcement: TypeAlias = Callable[[BrokerConfig, Addresses], Awaitable[None]]
"""Called once, when the node serves clients."""


async def announce_ready(config: BrokerConfig, addresses: Addresses) -> None:
    """Print the addresses of the broker in one line on standard output."""
    text = ", ".join(f"{name}://{host}:{port}" for name, host, port in addresses)
    print(f"broker {config.node_id} is ready on {text}", flush=True)


async def serve(config: BrokerConfig, announce: Announcement = announce_ready) -> bool:
    """Run a broker until SIGTERM or SIGINT, then stop it cleanly; return False if it has failed."""
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_requested.set)
    failure = NodeFailure(config.node_id)
    end_tasks = [loop.create_task(event.wait()) for event in (stop_requested, failure.event)]
    node = await _start(config, failure, end_tasks)
    if node is not None:
        garbage_collection = GarbageCollection()
        garbage_collection.start()
        try:
            await announce(config, tuple(node.addresses()))
            await asyncio.wait(end_tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            garbage_collection.stop()
            await node.stop()
    for task in end_tasks:
        task.cancel()
    return not failure.event.is_set()


async def _start(
    config: BrokerConfig, failure: NodeFailure, end_tasks: Sequence[asyncio.Task[bool]]
) -> BrokerNode | None:
    """Return the started node; None if one of `end_tasks` ends first: a start may wait for a quorum."""
    cluster_id = os.environ.get(CLUSTER_ID_VARIABLE)
    raise_open_file_limit()
    reserve_descriptor_table()
    start_task = asyncio.get_running_loop().create_task(
        BrokerNode.start(config, cluster_id=cluster_id, failure=failure)
    )
    await asyncio.wait((start_task, *end_tasks), return_when=asyncio.FIRST_COMPLETED)
    if not start_task.done():
        start_task.cancel()
    try:
        return await start_task
    except asyncio.CancelledError:
        return None


def _decode(properties: bytes) -> str:
    """Return a properties file as text: UTF-8, else ISO-8859-1 as in Java, where all bytes are valid."""
    try:
        return properties.decode()
    except UnicodeDecodeError:
        return properties.decode("iso-8859-1")


def run(config_path: str | None, overrides: dict[str, str], announce: Announcement = announce_ready) -> int:
    """Run a broker in this process; return the exit code."""
    try:
        config = load_config(config_path, overrides)
    except (ConfigError, OSError, ValueError) as error:
        print(f"Cannot start the broker: {error}", file=sys.stderr)
        return EXIT_CONFIG
    logger.info("%s", start_banner(config, package_version()))
    if unused := keys_without_effect(config):
        logger.warning("These configured keys have no effect: %s", ", ".join(unused))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if config.remote_log_storage_system_enable:
        keep_freed_memory()  # of the chunks of remote segments
    try:
        is_stopped_cleanly = uvloop.run(serve(config, announce))
    except (ConfigError, KafkaError, CorruptFile, OSError) as error:
        print(f"broker {config.node_id} cannot run: {error}", file=sys.stderr)
        return EXIT_START
    return 0 if is_stopped_cleanly else EXIT_FAILED


def parse_override(text: str) -> tuple[str, str]:
    """Return the pair of `key=value`. Raise argparse.ArgumentTypeError for any other text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value.strip()


def main(arguments: Sequence[str] | None = None, program: str = "python -m tidelog.broker") -> int:
    """Parse `arguments`, or those of the process if None, and run the broker; return the exit code."""
    parser = argparse.ArgumentParser(prog=program, description="Run one Tidelog broker.")
    parser.add_argument("--config", metavar="FILE", help="Kafka's server.properties")
    parser.add_argument("--override", action="append", default=[], type=parse_override, metavar="KEY=VALUE")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO")
    options = parser.parse_args(arguments)
    configure_logging(options.log_format, options.log_level)
    return run(options.config, dict(options.override))
