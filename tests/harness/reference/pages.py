"""The pages of the reference, from the definitions in the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from typer.main import get_command

from tests.harness.reference.client_pages import NOTE, clients_page, errors_page
from tidelog.base.config_definition import ConfigDefinition
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.broker.observability.metrics import Family
from tidelog.cli.app import COMMANDS
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS
from tidelog.testing.embedded import EmbeddedCluster


def configuration_page() -> str:
    """Return all keys of nodes and of topics, with defaults and allowed values."""
    parts = [
        "# Configuration keys\n", NOTE,
        "[configuration.md](../configuration.md) explains how settings are used together.\n",
        "## Nodes\n", *_config_table(BROKER_CONFIGS),
        "\n## Topics\n", *_config_table(TOPIC_CONFIGS),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _config_table(definitions: Mapping[str, ConfigDefinition]) -> Iterator[str]:
    yield "| key | default | allowed | meaning |\n|---|---|---|---|"
    for key in sorted(definitions):
        definition = definitions[key]
        if definition.internal:
            continue
        default = "required" if definition.required else definition.default_text
        shown = "not set" if default is None else f"`{default}`" if default else "empty"
        allowed = definition.allowed.removeprefix("allowed is ")
        yield f"| `{key}` | {shown} | {_cell(allowed)} | {_cell(definition.documentation)} |"


def metrics_page() -> str:
    """Return all metrics of a node with tiered storage and telemetry of clients, with their labels."""
    config = {"client.telemetry.metrics.enable": "true"}
    with EmbeddedCluster(tiered=True, config=config) as cluster:
        families: list[Family] = cluster.run(lambda node: list(node.metrics.families))
    parts = [
        "# Metrics\n", NOTE,
        "[monitoring.md](../monitoring.md) explains them. The names are those for Prometheus.\n",
        "| metric | kind | labels | meaning |\n|---|---|---|---|",
    ]  # fmt: skip
    for family in sorted(families, key=lambda each: each.name):
        name = family.name + ("_total" if family.kind.value == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in family.labels)
        parts.append(f"| `{name}` | {family.kind.value} | {labels} | {_cell(family.documentation)} |")
    return "\n".join(parts) + "\n"


def commands_page() -> str:
    """Return all commands with their arguments and options."""
    parts = ["# Commands\n", NOTE]
    for name, command in COMMANDS.items():
        parts += [f"## tidelog {name}\n", f"{command.summary}\n"]
        root = get_command(import_module(f"tidelog.cli.{command.module}").app)
        for path, each in _leaves(root, f"tidelog {name}"):
            parts += list(_command_lines(path, each))
    return "\n".join(parts) + "\n"


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(command, "commands", {})
    for name, subcommand in subcommands.items():
        yield from _leaves(subcommand, f"{path} {name}")
    if not subcommands:
        yield path, command


def _command_lines(path: str, command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([path, *(_metavar(each) for each in arguments)])
    yield f"### {path.removeprefix('tidelog ')}\n"
    yield f"`{usage}`\n"
    yield f"{_paragraphs(command.help)}\n"
    rows = [(_metavar(each), each.help) for each in arguments if getattr(each, "help", None)]
    rows += [(_option(each), each.help) for each in options]
    if rows:
        yield "| option | meaning |\n|---|---|"
        for name, text in rows:
            yield f"| `{_cell(name)}` | {_cell(text or '')} |"
        yield ""


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _option(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"{names} {option.metavar or ''}".rstrip()


def _paragraphs(text: str | None) -> str:
    return re.sub(r"(?<!\n)\n(?!\n)", " ", (text or "").strip())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": configuration_page,
    "metrics.md": metrics_page,
    "commands.md": commands_page,
    "clients.md": clients_page,
    "errors.md": errors_page,
}
