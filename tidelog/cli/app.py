"""The commands of `tidelog` by name.

Only the command that is called is imported, so that `tidelog --help` and admin commands do not import the
broker.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

import tidelog
from tidelog.base.similar_names import did_you_mean
from tidelog.cli.failures import exit_codes_for_failures, exit_for_usage


class LazyCommand(NamedTuple):
    """The module of a command in `tidelog.cli`, and the summary in the help."""

    module: str
    summary: str


COMMANDS: Final[dict[str, LazyCommand]] = {
    "dev": LazyCommand("local.dev", "Start a broker for development; its data is in a local directory."),
    "broker": LazyCommand(
        "local.broker", "Run a broker with a server.properties file; list and unregister brokers."
    ),
    "topic": LazyCommand("topics.topic", "Create, list, describe, alter, reassign and delete topics."),
    "produce": LazyCommand("records.produce", "Write records from standard input to a topic."),
    "consume": LazyCommand("records.consume", "Read records from topics and print them."),
    "group": LazyCommand("groups.group", "List, describe and delete consumer groups; reset their offsets."),
    "share-group": LazyCommand(
        "groups.share_group", "List, describe and delete share groups; reset their offsets."
    ),
    "streams-group": LazyCommand(
        "groups.streams_group", "List, describe and delete streams groups; reset their offsets."
    ),
    "transactions": LazyCommand(
        "transactions.transactions", "List, describe and abort transactions; find hanging transactions."
    ),
    "cluster": LazyCommand(
        "cluster.cluster",
        "Show the health of a cluster; restore one; start and stop a local cluster.",
    ),
    "console": LazyCommand("console.console", "Show a cluster in a web browser."),
    "log-dirs": LazyCommand("cluster.log_dirs", "Show the log directories of brokers, and sizes."),
    "api-versions": LazyCommand("cluster.api_versions", "Show the versions of APIs that brokers support."),
    "features": LazyCommand("cluster.features", "Show and change the levels of features of a cluster."),
    "user": LazyCommand("security.user", "List, create, alter and delete users of SCRAM."),
    "acl": LazyCommand("security.acl", "List, add and remove access control entries."),
    "quota": LazyCommand("security.quota", "Describe, alter and remove client quotas."),
    "config": LazyCommand(
        "cluster.config", "Describe and change configurations of topics, brokers and groups."
    ),
    "token": LazyCommand("security.token", "Create, renew, expire and describe delegation tokens."),
    "quorum": LazyCommand("cluster.quorum", "Describe the controller quorum; add and remove controllers."),
    "storage": LazyCommand("local.storage", "Format the log directories of a node."),
    "log": LazyCommand("log_dump.log", "Print and verify the files of a log directory."),
    "tier": LazyCommand("tier.tier", "Show, verify and restore the segments in remote storage."),
    "backup": LazyCommand("cluster.backup", "List, show and delete backups of clusters in the bucket."),
    "spark": LazyCommand("spark.spark", "Run Spark jobs over topics: archive, verify, transform, stats."),
    "perf": LazyCommand("records.perf", "Measure the throughput of a cluster."),
    "bench": LazyCommand("records.perf", "The same as perf."),
}


class LazyGroup(TyperGroup):
    """The root command: imports a command when it is called, and turns errors into exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return the command; None if there is no command with this name."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        subcommand = get_command(import_module(f"tidelog.cli.{command.module}").app)
        subcommand.name = cmd_name
        return subcommand

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, command and other arguments; the error for an unknown name has similar names."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error is printed on one line and becomes an exit code."""
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
        """Parse the arguments and run the command; always raise SystemExit."""
        with exit_for_usage():
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=LazyGroup,
    name="tidelog",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    print(f"tidelog {tidelog.__version__}")
    raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Tidelog: a log broker with Apache Kafka's protocol, and its tools.

    Commands for a cluster use -b/--bootstrap or the environment variable TIDELOG_BOOTSTRAP.
    Exit codes: 0 success, 1 failure, 2 wrong usage.
    """
