"""The console as a child process of a broker: `python -m tidelog.cli.console.process`.

Standard input has one line of JSON with the settings, which `tidelog/broker/node/wiring/console.py` writes.
The process prints its address when it serves, and ends when its input ends: then its broker has ended.

Exit codes: 0 the input has ended, 1 the cluster or the port cannot be used, 2 the settings cannot be used.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

from tidelog.base.config_definition import ConfigError
from tidelog.cli.client_options import normalized_options
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.console.serving import ConsoleSettings, serve_users
from tidelog.cli.console.tier_cost import TierPrices
from tidelog.cli.failures import EXIT_FAILURE, EXIT_USAGE, UsageFailure, complain
from tidelog.protocol.errors import KafkaError
from tidelog.security.tls.contexts import server_context
from tidelog.security.tls.settings import parse_tls_settings

SETTINGS_BYTES_MAX: Final = 1 << 20


def main() -> int:
    """Serve until the standard input ends; return the exit code."""
    # ctrl-C is for the broker, which ends this process by its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.buffer.readline(SETTINGS_BYTES_MAX))
    try:
        asyncio.run(_serve_until_input_ends(settings))
    except (UsageFailure, ConfigError) as error:
        complain(f"console.listener: {error}")
        return EXIT_USAGE
    except (KafkaError, OSError) as error:
        complain(f"console.listener: {error}")
        return EXIT_FAILURE
    return 0


async def _serve_until_input_ends(document: Mapping[str, Any]) -> None:
    tls = None
    if document["tls"]:
        tls, _ = server_context(parse_tls_settings(document["tls"]))
    settings = ConsoleSettings(
        host=document["host"],
        port=document["port"],
        tls=tls,
        allows_writes=document["allows_writes"],
        schema_registry=document["schema_registry"],
        prices=TierPrices(**document["prices"]),
    )
    cluster = ClusterConnection(
        document["bootstrap"], "console.listener", normalized_options(document["client"])
    )
    serving = asyncio.create_task(serve_users(cluster, settings, lambda url: print(url, flush=True)))
    input_end = asyncio.create_task(_end_of_input())
    await asyncio.wait((serving, input_end), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    serving.cancel()
    input_end.cancel()
    await asyncio.wait((serving, input_end))


async def _end_of_input() -> None:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    sys.exit(main())
