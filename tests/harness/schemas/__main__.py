"""`python -m tests.harness.schemas DIRECTORY`: differences of our messages; exit code 1 if there are any."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.schemas.comparison import compare
from tests.harness.schemas.layout import Definition
from tests.support.messages.all_messages import all_messages


def main(arguments: list[str]) -> int:
    """Compare every definition in the directory; print one line per difference and a summary."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m tests.harness.schemas DIRECTORY_OF_JSON_DEFINITIONS", file=sys.stderr)
        return 2
    paths = sorted(Path(arguments[0]).glob("*.json"))
    ours = {message.__name__: message for message in all_messages()}
    lines = [line for path in paths for line in compare(Definition.read(path), ours)]
    for line in lines:
        print(line)
    print(f"{len(paths)} definitions compared, {len(lines)} differences")
    return 1 if lines or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
