"""What a person sees when a command fails: one line on standard error, and an exit code.

| code | |
|---|---|
| 1 | it failed: a broker's error, damage in a file, no connection |
| 2 | it was called wrongly: options, values, settings |
| 130 | ctrl-C |
| 141 | whoever read the output has gone |
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
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141
EXIT_TERMINATED: Final = 143

TRACEBACK_VARIABLE: Final = "TIDELOG_TRACEBACK"


class UsageFailure(Exception):
    """The command was called wrongly; the text says with what."""


class Terminated(Exception):
    """SIGTERM came."""


def complain(text: str) -> None:
    """Print one line on standard error."""
    line = " ".join(text.split("\n")).strip()
    print(f"tidelog: {line}", file=sys.stderr, flush=True)


def kafka_error_text(error: KafkaError) -> str:
    """The error's words, with Kafka's name for it, by which it is found in Kafka's documentation."""
    name = f"[{error.code.name}]"
    return str(error) if name in str(error) else f"{error} {name}"


@contextmanager
def exit_codes_for_failures() -> Iterator[None]:
    """Turn what a command raises into one line and typer.Exit; a traceback only if the environment asks.

    Errors: typer's own pass, `exit_for_usage` handles them.
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
    """Exit code and words for an error."""
    # Imported here: nothing of these is needed while all goes well.
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
        place = f"{error.filename}: " if error.filename else ""
        return EXIT_FAILURE, f"{place}{error.strerror or error}"
    return EXIT_FAILURE, (
        f"internal error: {type(error).__name__}: {error} (set {TRACEBACK_VARIABLE}=1 to see where)"
    )


@contextmanager
def exit_for_usage() -> Iterator[None]:
    """Turn typer's complaints about arguments into one line and SystemExit(2), help into SystemExit(2)."""
    try:
        yield
    except TyperException as error:
        context = getattr(error, "ctx", None)
        text = error.format_message()
        if context is not None and text == context.get_help():
            print(text, file=sys.stderr)
        else:
            command = context.command_path if context is not None else "tidelog"
            words = " ".join(text.split()).rstrip(".")
            print(f"{command}: {words}. Try '{command} --help'.", file=sys.stderr)
        sys.exit(error.exit_code)


def _forget_output() -> None:
    """Let the interpreter's last flush of standard output go nowhere."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
