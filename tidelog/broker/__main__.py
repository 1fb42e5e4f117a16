"""Run one broker: `python -m tidelog.broker --config server.properties --override key=value`.

The same as `tidelog broker`, but without loading the libraries of the command line. Containers and local
clusters start brokers in this way.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, program: str = "python -m tidelog.broker") -> int:
    """Load the broker and run it with `arguments`, or those of the process if None; return the exit code.

    The objects that imports create stay until the end. To search them for garbage would take a tenth of the
    start, and some milliseconds in every later collection.
    """
    gc.disable()
    from tidelog.broker.node.process import main as run

    gc.freeze()
    gc.enable()
    return run(arguments, program)


if __name__ == "__main__":
    sys.exit(main())
