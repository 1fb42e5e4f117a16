"""The entry of the `tidelog` command.

`tidelog broker` calls `tidelog.broker.__main__` directly, because a container's main process does not need
typer and rich.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with its exit code."""
    _open_closed_streams()
    command_arguments = sys.argv[1:] if arguments is None else list(arguments)
    if command_arguments[:1] == ["broker"] and command_arguments[1:2] not in (["list"], ["unregister"]):
        from tidelog.broker.__main__ import main as run_broker

        sys.exit(run_broker(command_arguments[1:], program="tidelog broker"))

    from tidelog.cli.app import app

    app(args=command_arguments, prog_name="tidelog")


def _open_closed_streams() -> None:
    """Open closed standard streams (`<&-`) on the null device, to reserve their descriptors."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(descriptor)
                continue  # the descriptor is open, although Python has no stream for it
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", closefd=False))


if __name__ == "__main__":
    main()
