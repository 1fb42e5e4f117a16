"""Run one broker: `python -m tidelog.broker --config server.properties --override key=value`.

The same as `tidelog broker`, without loading the command line's libraries; what containers and
the cluster commands start.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, program: str = "python -m tidelog.broker") -> int:
    """Load the broker and run it with these arguments, or those of the process; the exit code.

    What imports make is there to stay: to look for garbage in it would take a tenth of the start, and
    some milliseconds again and again later.
    """
    gc.disable()
    from tidelog.broker.node.process import main as run

    gc.freeze()
    gc.enable()
    return run(arguments, program)


if __name__ == "__main__":
    sys.exit(main())
