"""The console of a node with console.listener."""

from __future__ import annotations

from tidelog.broker.config.console_config import console_config
from tidelog.broker.node.wiring.broker_network import BrokerNetwork
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.observability.console_process import ConsoleProcess


def create_console(context: NodeContext, network: BrokerNetwork) -> ConsoleProcess | None:
    """Return the console, which connects to the advertised address of its listener; None without one."""
    config = context.config
    console = console_config(config)
    if console is None:
        return None
    advertised = next(each for each in network.advertised() if each.name == console.kafka_listener)
    host = f"[{advertised.host}]" if ":" in advertised.host else advertised.host
    settings = {
        "host": console.host,
        "port": console.port,
        "bootstrap": f"{host}:{advertised.port}",
        "client": console.client,
        "tls": console.tls,
        "allows_writes": config.console_writes_enable,
        "schema_registry": config.console_schema_registry_url,
        "prices": {
            "gb_month": config.console_price_gb_month,
            "thousand_requests": config.console_price_1000_requests,
            "currency": config.console_price_currency,
        },
    }
    return ConsoleProcess(settings, context.clock, context.randomness)
