"""Running the `tidelog` command in this process."""

from __future__ import annotations

from typing import Final

from typer.testing import CliRunner, Result

from tidelog.cli.app import app

TERMINAL_WIDTH: Final = 80


def tidelog(*arguments: str, stdin: bytes | str | None = None, bootstrap: str | None = None) -> Result:
    """Run the command with `bootstrap` in its environment; it must end without a traceback."""
    runner = CliRunner(env={"TIDELOG_BOOTSTRAP": bootstrap, "TIDELOG_TRACEBACK": None})
    result = runner.invoke(app, arguments, input=stdin, prog_name="tidelog")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "internal error" not in result.stderr, result.stderr
    return result


def tidelog_output(*arguments: str, stdin: bytes | str | None = None, bootstrap: str | None = None) -> str:
    """Return the output of a successful command that logs no error."""
    result = tidelog(*arguments, stdin=stdin, bootstrap=bootstrap)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def tidelog_failure(
    *arguments: str, code: int = 1, stdin: bytes | str | None = None, bootstrap: str | None = None
) -> str:
    """Return the single error line of a failing command."""
    result = tidelog(*arguments, stdin=stdin, bootstrap=bootstrap)
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("tidelog")
    return lines[0]
