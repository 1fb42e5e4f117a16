"""`tidelog broker` through typer: run a broker by `tidelog.broker.__main__`, list or unregister brokers."""

from __future__ import annotations

import typer
from typer.main import get_command

from tidelog.cli.local import broker_admin

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def broker(context: typer.Context) -> None:
    """Run a broker with a server.properties file; `list` and `unregister` the brokers of a cluster."""
    if context.args[:1] and context.args[0] in broker_admin.COMMANDS:
        command = get_command(broker_admin.app)
        raise typer.Exit(command.main(context.args, prog_name="tidelog broker", standalone_mode=False) or 0)
    from tidelog.broker.__main__ import main

    raise typer.Exit(main(context.args, program="tidelog broker"))
