"""The command line of a load: options and results are JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any


def main(load: Callable[..., dict[str, Any]]) -> None:
    """Call `load` with the options in the last argument, and print its result."""
    print(json.dumps(load(**json.loads(sys.argv[-1]))))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the sorted values are; 0 without values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
