"""The version of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """Return the version of the installed package; "unknown" if only its files are in the path."""
    try:
        return version("tidelog")
    except PackageNotFoundError:
        return "unknown"
