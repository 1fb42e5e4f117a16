"""The commands in the documents, and what they print. Only the standard library is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ID = r"(?<![\w-])[\w-]{22}(?![\w-])"
PLACEHOLDERS = {
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?": "TIME",
    r"\b[\d.]+ s\b": "DURATION",
    r"\b[\d.]+ ([KMGT]i)?B\b": "SIZE",
    r"\b(127\.0\.0\.1|localhost):\d+": "ADDRESS",
    ID: "ID",
    r"(?<=token=)[\w-]+": "TOKEN",
    r" {2,}": " ",
}
"""What differs from run to run: times, durations, sizes, addresses, ids, and so the width of columns."""


class Step(NamedTuple):
    """One command of a console block, and the output that it shows; "..." stands for any text."""

    command: str
    output: str

    def is_shown(self, printed: str) -> bool:
        """Return whether `printed` is the output, except for times, sizes, addresses and ids."""
        parts = re.split(r"\s*\.\.\.", _with_placeholders(self.output))
        pattern = ".*".join(map(re.escape, parts))
        return re.fullmatch(pattern, _with_placeholders(printed), re.DOTALL) is not None


def _with_placeholders(text: str) -> str:
    for value, placeholder in PLACEHOLDERS.items():
        text = re.sub(value, placeholder, text)
    return text


def ids(text: str) -> list[str]:
    """Return the ids of clusters, topics and tokens in a text."""
    return re.findall(ID, text)


def console_steps(document: Path) -> Iterator[Step]:
    """Yield the commands of the console blocks of a document in their order."""
    for block in code_blocks(document, "console"):
        joined = re.sub(r"\\\n\s*", "", block)
        for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
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
