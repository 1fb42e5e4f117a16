"""The errors of commands: one line on standard error, and an exit code.

| code | |
|---|---|
| 1 | failure: an error of a broker, a damaged file, no connection |
| 2 | wrong usage: options, values, settings |
| 130 | ctrl-C |
| 141 | broken pipe: the reader of the output has exited |
| 143 | SIGTERM |
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer
from typer.exceptions import TyperException

if TYPE_CHECKING:
    from tidelog.protocol.errors import KafkaError

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_BROKEN_PIPE: Final = 141
EXIT_TERMINATED: Final = 143

TRACEBACK_VARIABLE: Final = "TIDELOG_TRACEBACK"


class UsageFailure(Exception):
    """The command was used wrongly; the text states how."""


class Terminated(Exception):
    """The process has received SIGTERM."""


def complain(text: str) -> None:
    """Print one line on standard error."""
    line = " ".join(text.split("\n")).strip()
    print(f"tidelog: {line}", file=sys.stderr, flush=True)


def kafka_error_text(error: KafkaError) -> str:
    """Return the error's text with Kafka's name of the error code."""
    name = f"[{error.code.name}]"
    return str(error) if name in str(error) else f"{error} {name}"


@contextmanager
def exit_codes_for_failures() -> Iterator[None]:
    """Print an exception of a command on one line and raise typer.Exit with its exit code.

    With TIDELOG_TRACEBACK, also print the traceback. Typer's own exceptions are for `exit_for_usage`.
    """
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, TyperException, KeyboardInterrupt):
        raise
    except BrokenPipeError:
        _forget_output()
        raise typer.Exit(EXIT_BROKEN_PIPE) from None
    except Terminated:
        raise typer.Exit(EXIT_TERMINATED) from None
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        code, text = _explain(error)
        complain(text)
        raise typer.Exit(code) from error


def _explain(error: Exception) -> tuple[int, str]:
    """Return exit code and text of an error."""
    # Imported here: successful commands do not need these modules.
    from tidelog.base.config_definition import ConfigError
    from tidelog.clients.config.options import ConfigError as ClientConfigError
    from tidelog.protocol.errors import DecodeError, KafkaError
    from tidelog.remote.ports.storage_manager import RemoteStorageError
    from tidelog.spark_connector.jobs.failures import JobFailure
    from tidelog.spark_connector.planning.option_values import OptionError
    from tidelog.storage.disk.errors import CorruptFile

    if isinstance(error, UsageFailure | ClientConfigError | ConfigError | OptionError):
        return EXIT_USAGE, str(error)
    if isinstance(error, KafkaError):
        return EXIT_FAILURE, kafka_error_text(error)
    if isinstance(error, CorruptFile | DecodeError | RemoteStorageError | JobFailure):
        return EXIT_FAILURE, str(error)
    if isinstance(error, OSError):
        location = f"{error.filename}: " if error.filename else ""
        return EXIT_FAILURE, f"{location}{error.strerror or error}"
    return EXIT_FAILURE, (
        f"internal error: {type(error).__name__}: {error} (set {TRACEBACK_VARIABLE}=1 for the traceback)"
    )


@contextmanager
def exit_for_usage() -> Iterator[None]:
    """Print an argument error of typer on one line, or the help, and raise SystemExit(2)."""
    try:
        yield
    except TyperException as error:
        context = getattr(error, "ctx", None)
        text = error.format_message()
        if context is not None and text == context.get_help():
            print(text, file=sys.stderr)
        else:
            command = context.command_path if context is not None else "tidelog"
            sentence = " ".join(text.split()).rstrip(".").replace(". Did you", "; did you")
            end = "" if sentence.endswith("?") else "."
            print(f"{command}: {sentence}{end} Try '{command} --help'.", file=sys.stderr)
        sys.exit(error.exit_code)


def _forget_output() -> None:
    """Redirect standard output to the null device, so that the final flush does not fail."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, descriptor)
    os.close(null_device)
