"""What a worker process of Spark keeps between tasks."""

from __future__ import annotations

import gc
from typing import Final

_FREEZES: Final = 3
_freezes_left = _FREEZES


def freeze_imports() -> None:
    """Spare the worker the search through pyarrow's objects that PySpark asks for after every task.

    Three times, as imports go on happening during the first tasks of a process: from about 30 ms to 10.
    """
    global _freezes_left  # noqa: PLW0603 - a worker process is the scope
    if _freezes_left:
        _freezes_left -= 1
        gc.freeze()
