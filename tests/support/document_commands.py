"""The commands in the documents, and what they print. Only the standard library is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """One command of a console block, and the output that it shows; "..." stands for any text."""

    command: str
    output: str

    def is_shown(self, printed: str) -> bool:
        """Return whether `printed` is the output."""
        pattern = ".*".join(map(re.escape, self.output.split("...")))
        return re.fullmatch(pattern, printed, re.DOTALL) is not None


def console_steps(document: Path) -> Iterator[Step]:
    """Yield the commands of the console blocks of a document in their order."""
    for block in code_blocks(document, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output)


def code_blocks(document: Path, language: str) -> list[str]:
    """Return the code blocks with this language, which may be empty."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def command_lines(document: Path) -> Iterator[str]:
    """Yield the lines with a `tidelog` command; a line that ends with a backslash includes the next one."""
    text = re.sub(r"\\\n\s*", " ", document.read_text())
    # In a sentence, a command is quoted.
    yield from re.findall(r"^[^`\n]*\btidelog [a-z][^`\n]*$", text, re.MULTILINE)
