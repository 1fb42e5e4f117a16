"""Passwords of commands: from a prompt, a file or standard input, never from arguments."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.failures import UsageFailure

PASSWORD_CHARACTERS_MAX: Final = 1024
_STANDARD_INPUT: Final = "-"

PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="A file whose first line is the password; - for standard input. Default: a prompt.",
    ),
]


def read_password(file: str | None, user: str) -> str:
    """Return the first line of `file`, or of a prompt. Errors: UsageFailure, without the password."""
    if file is None:
        password = _prompt(user)
    elif file == _STANDARD_INPUT:
        password = sys.stdin.readline(PASSWORD_CHARACTERS_MAX + 2)
    else:
        try:
            with Path(file).open(encoding="utf-8") as opened:
                password = opened.readline(PASSWORD_CHARACTERS_MAX + 2)
        except OSError as error:
            raise UsageFailure(f"--password-file {file}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise UsageFailure(f"--password-file {file}: the file is not text in UTF-8") from None
    password = password.rstrip("\r\n")
    if not password:
        raise UsageFailure("the password is empty")
    if len(password) > PASSWORD_CHARACTERS_MAX:
        raise UsageFailure(f"the password has more than {PASSWORD_CHARACTERS_MAX} characters")
    return password


def _prompt(user: str) -> str:
    if not sys.stdin.isatty():
        raise UsageFailure(
            "no terminal for a password prompt: give --password-file FILE, or - for standard input"
        )
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("The same password again: ") != password:
        raise UsageFailure("the two passwords differ")
    return password
