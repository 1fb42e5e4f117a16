"""The differences between a definition of Kafka and our declaration of the same message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.harness.schemas.layout import Definition, Layout, flexible_in, our_layout
from tidelog.protocol.schema import Message


def compare(definition: Definition, ours: Mapping[str, type[Message]]) -> list[str]:
    """Return one line per difference, empty if both describe the same bytes in every version."""
    message = ours.get(definition.name)
    if message is None:
        return [f"{definition.name}: not declared"]
    lines: dict[str, list[int]] = {}
    for version in _versions(definition):
        if version not in message.valid_versions:
            lines.setdefault("version not declared", []).append(version)
            continue
        if (version in definition.flexible) != flexible_in(message, version):
            lines.setdefault("flexible in one of the two only", []).append(version)
        for line in _differences(definition.layout(version), our_layout(message, version), ""):
            lines.setdefault(line, []).append(version)
    return [f"{definition.name} {_ranges(versions)}: {line}" for line, versions in lines.items()]


def _versions(definition: Definition) -> range:
    highest = definition.valid.highest
    return range(definition.valid.lowest, definition.valid.lowest if highest is None else highest + 1)


def _differences(kafka: Layout, ours: Layout, path: str) -> Iterator[str]:
    theirs_by_name = {field.name: field for field in kafka}
    ours_by_name = {field.name: field for field in ours}
    for name, field in theirs_by_name.items():
        if name not in ours_by_name:
            yield f"{path}{field} is missing"
    for name, field in ours_by_name.items():
        if name not in theirs_by_name:
            yield f"{path}{field} is not Kafka's"
    common = [name for name in theirs_by_name if name in ours_by_name]
    if common != [name for name in ours_by_name if name in theirs_by_name]:
        yield f"{path or 'the message'} has another order of fields"
    for name in common:
        own, its = ours_by_name[name], theirs_by_name[name]
        if str(own) != str(its):
            yield f"{path}{its} in Kafka, ours is {own}"
        yield from _differences(its.fields, own.fields, f"{path}{name}.")


def _ranges(versions: list[int]) -> str:
    """Return versions as text: [0, 1, 2, 5] is "v0-2, v5"."""
    parts: list[list[int]] = []
    for version in versions:
        if parts and parts[-1][-1] == version - 1:
            parts[-1].append(version)
        else:
            parts.append([version])
    return ", ".join(f"v{part[0]}" if len(part) == 1 else f"v{part[0]}-{part[-1]}" for part in parts)
