"""The output of `log dump`: lines of `kind name=value ...`, or one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tidelog.cli.output import json_text, to_json

_INDENTS: Final = {"dumping": "", "file": "", "record": "    "}


class TextOutput:
    """Lines such as `batch position=0 base_offset=0 ...`; the entries of a file are indented."""

    def line(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Print one line; text with spaces or quotes is quoted as in JSON."""
        fields_text = " ".join(
            f"{name}={_text(value)}" for name, value in fields.items() if value is not None
        )
        print(f"{_INDENTS.get(kind, '  ')}{kind} {fields_text}")


class JsonOutput:
    """Lines such as `{"kind":"batch","position":0,...}`."""

    def line(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Print one object."""
        print(json_text({"kind": kind, **fields}))


Output: TypeAlias = TextOutput | JsonOutput


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, int):
        return str(value)
    document = to_json(value)
    return _quote(document) if isinstance(document, str) else json.dumps(document, ensure_ascii=False)


def _quote(text: str) -> str:
    plain = text and text.isprintable() and not set(text) & set(' "=\\')
    return text if plain else json.dumps(text, ensure_ascii=False)
