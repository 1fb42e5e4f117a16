"""Run one broker: `python -m broker --config server.properties --override key=value`.

The same as `tidelog broker`, without loading the command line's libraries; what containers and
the cluster commands start.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from broker.config import BrokerConfig
from broker.node import BrokerNode
from protocol.errors import KafkaError
from storage.config_definition import ConfigError
from storage.errors import CorruptFile

EXIT_CONFIG = 2
EXIT_START = 1


def load_config(path: str | None, overrides: dict[str, str]) -> BrokerConfig:
    """Settings from a properties file, the environment's KAFKA_ variables, and overrides, the last wins."""
    text = Path(path).read_text() if path else ""
    return BrokerConfig.load(text, os.environ, overrides)


async def serve(config: BrokerConfig) -> None:
    """Run a broker until SIGTERM or SIGINT, then shut it down cleanly."""
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    node = BrokerNode(config)
    await node.start()
    addresses = ", ".join(f"{name}://{host}:{port}" for name, host, port in node.addresses())
    print(f"broker {config.node_id} is ready on {addresses}", flush=True)
    await asked_to_stop.wait()
    await node.stop()


def run(config_path: str | None, overrides: dict[str, str]) -> int:
    """Run a broker in this process; the exit code says what kept it from starting."""
    try:
        config = load_config(config_path, overrides)
    except (ConfigError, OSError, ValueError) as error:
        print(f"config: {error}", file=sys.stderr)
        return EXIT_CONFIG
    try:
        uvloop.run(serve(config))
    except (ConfigError, KafkaError, CorruptFile, OSError) as error:
        print(f"broker {config.node_id} cannot run: {error}", file=sys.stderr)
        return EXIT_START
    return 0


def parse_override(text: str) -> tuple[str, str]:
    """`key=value` as a pair; argparse.ArgumentTypeError otherwise."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value.strip()


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m broker", description="Run one Tidelog broker.")
    parser.add_argument("--config", metavar="FILE", help="Kafka's server.properties")
    parser.add_argument("--override", action="append", default=[], type=parse_override, metavar="KEY=VALUE")
    arguments = parser.parse_args()
    return run(arguments.config, dict(arguments.override))


if __name__ == "__main__":
    sys.exit(main())
