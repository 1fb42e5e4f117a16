"""`tidelog broker`, when it is reached through typer: everything is `broker.__main__`'s."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def broker(context: typer.Context) -> None:
    """Run a broker from a server.properties file."""
    from broker.__main__ import main

    raise typer.Exit(main(context.args, program="tidelog broker"))
