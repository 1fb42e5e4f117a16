"""Runs one operation with an admin client, and reports the items that failed (shell)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import typer

from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import EXIT_FAILURE, complain, kafka_error_text
from tidelog.cli.options import CONNECT_TIMEOUT_MS
from tidelog.cli.running import run
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import AdminConfig
from tidelog.protocol.errors import KafkaError

# The timeout of a change, once the cluster is reached.
OPERATION_TIMEOUT_MS: Final = 60_000

K = TypeVar("K")
T = TypeVar("T")


def with_admin(cluster: ClusterConnection, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with an admin client; return its result. Errors: KafkaError; those of `work`."""
    options = cluster.client_options(AdminConfig, {"default_api_timeout_ms": CONNECT_TIMEOUT_MS})

    async def connected() -> T:
        async with Admin(cluster.bootstrap, **options) as admin:
            return await work(admin)

    return run(connected())


def succeeded(results: Mapping[K, T | KafkaError]) -> dict[K, T]:
    """Return the results that are not errors; print each error on one line."""
    for error in results.values():
        if isinstance(error, KafkaError):
            complain(kafka_error_text(error))
    return {key: result for key, result in results.items() if not isinstance(result, KafkaError)}


def fail_unless_all(requested: int, completed: int) -> None:
    """Exit with 1 if some items have failed; their errors are already printed."""
    if completed < requested:
        raise typer.Exit(EXIT_FAILURE)
