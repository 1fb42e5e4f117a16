"""The entry of the `tidelog` command.

`tidelog broker` goes straight to `broker.__main__`: a container starts it, and neither typer nor rich
has anything to add there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["broker"] and given[1:2] not in (["list"], ["unregister"]):
        from broker.__main__ import main as run_broker

        sys.exit(run_broker(given[1:], program="tidelog broker"))

    from tidelog.cli.app import app

    app(args=given, prog_name="tidelog")


if __name__ == "__main__":
    main()
