"""The text of the demo: every line of every module of the running Python's standard library."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages"})


class Line(NamedTuple):
    """One record: the file as key, and the line with its line break as value."""

    key: bytes
    value: bytes


class Corpus:
    """Python files under a folder, in a fixed order; `paths` are relative to `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = [
            path.relative_to(root)
            for path in sorted(root.rglob("*.py"))
            if not FOREIGN_FOLDERS.intersection(path.relative_to(root).parts) and path.is_file()
        ]

    @classmethod
    def standard_library(cls) -> Corpus:
        """Return the corpus of the standard library's modules."""
        return cls(Path(sysconfig.get_path("stdlib")))

    def lines_of(self, path: Path) -> Iterator[Line]:
        """Yield every line of one of `paths`, with line breaks."""
        key = path.as_posix().encode()
        for line in (self.root / path).read_bytes().splitlines(keepends=True):
            yield Line(key, line)
