"""`meta.properties`: which node, cluster and directory a log directory belongs to.

A Java properties file. Version 1 (KRaft): version, cluster.id, node.id, directory.id; version 0 had
broker.id, and every id was optional.
Errors: CorruptCheckpoint names file and line.
Source: org.apache.kafka.metadata.properties.MetaProperties of Apache Kafka 4.3; java.util.Properties.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.base.properties import MalformedEscape, Property, parse_property_lines
from tidelog.protocol.ids import BrokerId, uuid_from_text, uuid_text
from tidelog.storage.disk.errors import CorruptCheckpoint
from tidelog.storage.disk.files import FileSystem, write_atomically

META_PROPERTIES: Final = "meta.properties"

_TO_ESCAPE: Final = re.compile(r"([\\=:#!])")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of a log directory; only version 0 may lack cluster and node."""

    cluster_id: str | None = None
    node_id: BrokerId | None = None
    directory_id: UUID | None = None
    version: int = 1


class MetaPropertiesFile:
    """The file `meta.properties` of a log directory."""

    def __init__(self, fs: FileSystem, log_dir: str) -> None:
        self._fs = fs
        self.path = f"{log_dir}/{META_PROPERTIES}"

    def exists(self) -> bool:
        """Return whether the directory was formatted."""
        return self._fs.exists(self.path)

    def read(self) -> MetaProperties:
        """Return the content of the file. Errors: FileNotFoundError, CorruptCheckpoint."""
        values = _parse(self.path, self._fs.read(self.path).decode("latin-1"))
        version_line, version = values.get("version", (0, "0"))
        if version not in ("0", "1"):
            raise CorruptCheckpoint(self.path, version_line, f"version {version!r} is unknown")
        node_key = "node.id" if version == "1" else "broker.id"
        if version == "1":
            for key in ("cluster.id", "node.id"):
                if key not in values:
                    raise CorruptCheckpoint(self.path, 0, f"{key} is missing")
        return MetaProperties(
            version=int(version),
            cluster_id=values["cluster.id"][1] if "cluster.id" in values else None,
            node_id=self._node_id(*values[node_key], node_key) if node_key in values else None,
            directory_id=self._directory_id(*values["directory.id"]) if "directory.id" in values else None,
        )

    def write(self, properties: MetaProperties) -> None:
        """Replace the file, durably; always as version 1."""
        assert properties.cluster_id is not None, "version 1 needs a cluster id"
        assert properties.node_id is not None, "version 1 needs a node id"
        lines = ["#", f"node.id={properties.node_id}"]
        if properties.directory_id is not None:
            lines.append(f"directory.id={uuid_text(properties.directory_id)}")
        lines.append("version=1")
        lines.append(f"cluster.id={_escape(properties.cluster_id)}")
        write_atomically(self._fs, self.path, "\n".join([*lines, ""]).encode("latin-1"))

    def _node_id(self, line: int, text: str, key: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,10}", text):
            raise CorruptCheckpoint(self.path, line, f"{key} {text!r} is not an integer")
        return int(text)

    def _directory_id(self, line: int, text: str) -> UUID:
        try:
            return uuid_from_text(text)
        except ValueError as error:
            raise CorruptCheckpoint(self.path, line, f"directory.id {error}") from error


def _parse(path: str, text: str) -> dict[str, Property]:
    """Return every key with its line number and value."""
    try:
        return parse_property_lines(text, META_PROPERTIES)
    except MalformedEscape as error:
        raise CorruptCheckpoint(path, error.line, f"{error.text!r} has a malformed \\u escape") from error


def _escape(text: str) -> str:
    escaped = _TO_ESCAPE.sub(r"\\\1", text)
    return "\\" + escaped if escaped.startswith(" ") else escaped
