"""The environment of the processes that tests and benchmarks start."""

from __future__ import annotations

import os


def python_environment() -> dict[str, str]:
    """Return our environment, in which Python may store compiled files, as it does by default."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
