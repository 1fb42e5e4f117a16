"""Generated Python source, and the objects that it refers to."""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SourceWriter:
    """Collects indented lines of source, and the names of the objects that the lines use."""

    def __init__(self, title: str, names: dict[str, Any]) -> None:
        self._title = f"<{title}>"
        self._lines: list[str] = []
        self._depth = 0
        self._names = dict(names)

    def line(self, text: str) -> None:
        """Append one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head`; indent the following lines by one more level until the block ends."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def bind(self, name: str, value: object) -> str:
        """Let the source refer to `value` as `name`; return `name`."""
        assert name not in self._names or self._names[name] == value, f"{name} is bound to another value"
        self._names[name] = value
        return name

    def bind_pack(self, codes: str) -> str:
        """Return the name of the big-endian packer of the struct codes `codes`."""
        name = "pack_" + codes.replace("?", "bool")
        self._names.setdefault(name, struct.Struct(">" + codes).pack)
        return name

    def bind_unpack(self, codes: str) -> str:
        """Return the name of the big-endian unpacker of `codes`; it takes a buffer and a position."""
        name = "unpack_" + codes.replace("?", "bool")
        self._names.setdefault(name, struct.Struct(">" + codes).unpack_from)
        return name

    @property
    def text(self) -> str:
        """The lines that were appended so far."""
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str) -> Callable[..., Any]:
        """Execute the source and return its `function`; tracebacks show the generated lines."""
        text = self.text
        linecache.cache[self._title] = (len(text), None, text.splitlines(keepends=True), self._title)
        exec(compile(text, self._title, "exec"), self._names)
        compiled: Callable[..., Any] = self._names[function]
        return compiled
