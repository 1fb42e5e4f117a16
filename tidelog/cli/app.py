"""The commands of `tidelog` by name, loaded one at a time.

Only the command that is called is imported, so that `tidelog --help` and a small admin command do not
pay for the broker.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tidelog.cli.failures import exit_codes_for_failures, exit_for_usage


class LazyCommand(NamedTuple):
    """Where a command lives and what it does."""

    module: str
    summary: str


COMMANDS: Final[dict[str, LazyCommand]] = {
    "dev": LazyCommand("tidelog.cli.dev", "Start a broker for development, with its data in a folder here."),
    "broker": LazyCommand("tidelog.cli.broker", "Run a broker from a server.properties file; list brokers."),
    "topic": LazyCommand("tidelog.cli.topic", "Create, list, describe, alter, move and delete topics."),
    "produce": LazyCommand("tidelog.cli.produce", "Write records to a topic from standard input."),
    "consume": LazyCommand("tidelog.cli.consume", "Read records from topics to standard output."),
    "group": LazyCommand("tidelog.cli.group", "List, describe and delete consumer groups."),
    "transactions": LazyCommand(
        "tidelog.cli.transactions", "List, describe and abort transactions, and find those that hang."
    ),
    "cluster": LazyCommand(
        "tidelog.cli.cluster", "Show a cluster and its health; start one on this machine."
    ),
    "config": LazyCommand("tidelog.cli.config", "Show and change configurations of topics and brokers."),
    "quorum": LazyCommand("tidelog.cli.quorum", "Show the quorum of controllers, and change who votes."),
    "storage": LazyCommand("tidelog.cli.storage", "Prepare the directories of a node for its cluster."),
    "log": LazyCommand("tidelog.cli.log", "Print and verify files of a log directory."),
    "tier": LazyCommand("tidelog.cli.tier", "Show what is in remote storage, why, and whether it is whole."),
    "spark": LazyCommand("tidelog.cli.spark", "Run pipelines over topics on Spark."),
    "perf": LazyCommand("tidelog.cli.perf", "Measure how fast a cluster takes and gives records."),
}


class LazyGroup(TyperGroup):
    """Imports a command when it is called, and ends the process with an exit code and one line."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported now; None when there is none by this name."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        loaded = get_command(import_module(command.module).app)
        loaded.name = cmd_name
        return loaded

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong in it becomes a line and an exit code."""
        with exit_codes_for_failures():
            return super().invoke(ctx)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse and run; always ends in SystemExit."""
        with exit_for_usage():
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=LazyGroup,
    name="tidelog",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        print(f"tidelog {version('tidelog')}")
    except PackageNotFoundError:
        print("tidelog (not installed)")
    raise typer.Exit


@app.callback()
def tidelog(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Tidelog: a log broker that speaks Apache Kafka's protocol, and its tools.

    Commands that talk to a cluster take -b/--bootstrap, or TIDELOG_BOOTSTRAP from the environment.
    They exit with 0 when all went well, 1 when something failed, 2 when they were called wrongly.
    """
