"""Imports of this package without pytest's rewriting of `assert`.

pytest rewrites the modules of a distribution that has a plugin. For this package these are 800 modules, which
would make the first use of a broker in a test slow: each must be parsed, and cached a second time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

_PACKAGE: Final = "tidelog"


class PlainImports:
    """A finder before that of pytest; it finds the modules of this package as Python does."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's specification; None for other packages."""
        if name != _PACKAGE and not name.startswith(f"{_PACKAGE}."):
            return None
        return PathFinder.find_spec(name, path, target)

    def install(self) -> None:
        """Make this the first finder."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Undo `install`."""
        sys.meta_path.remove(self)
