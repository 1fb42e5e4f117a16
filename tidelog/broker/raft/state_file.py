"""`quorum-state`: the durable state of a replica of the metadata quorum.

One line of JSON, which is replaced as a whole and durably. Version 1 has directory ids (KIP-853), version 0
does not. The cluster's kraft.version determines the version that is written. Both versions are read.

    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

I/O: `write` blocks until the file is durable. Errors: CorruptCheckpoint; OSError, StorageFailure.
Source: FileQuorumStateStore and QuorumStateData.json of Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.protocol.ids import BrokerId, uuid_from_text, uuid_text
from tidelog.protocol.schema import ZERO_UUID
from tidelog.storage.disk.errors import CorruptCheckpoint
from tidelog.storage.disk.files import FileSystem, write_atomically

QUORUM_STATE: Final = "quorum-state"

_HIGHEST_VERSION: Final = 1
_NONE: Final = -1
_INT32: Final = 2**31


class QuorumStateFile:
    """The file in the directory of the metadata log."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.path = f"{directory}/{QUORUM_STATE}"

    def read(self) -> QuorumRecord | None:
        """Return the last record that was written; None if there is no file."""
        if not self._fs.exists(self.path):
            return None
        line = self._fs.read(self.path).partition(b"\n")[0]
        try:
            content = json.loads(line)
        except ValueError as error:
            raise CorruptCheckpoint(self.path, 1, f"{line[:80]!r} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise CorruptCheckpoint(self.path, 1, f"{line[:80]!r} is not a JSON object")
        version = self._integer(content, "data_version")
        if not 0 <= version <= _HIGHEST_VERSION:
            text = f"data_version {version} is not supported; supported versions are 0 to {_HIGHEST_VERSION}"
            raise CorruptCheckpoint(self.path, 1, text)
        leader, voted = self._integer(content, "leaderId"), self._integer(content, "votedId")
        return QuorumRecord(
            leader_epoch=self._integer(content, "leaderEpoch"),
            leader_id=None if leader == _NONE else leader,
            voted_id=None if voted == _NONE else voted,
            voted_directory_id=self._directory_id(content) if version > 0 and voted != _NONE else None,
        )

    def write(self, record: QuorumRecord, *, kraft_version: int, voters: Iterable[BrokerId]) -> None:
        """Replace the file durably, in the version of `kraft_version`.

        Only version 0 contains `voters`, as information for operators; they are never read.
        """
        voted = _NONE if record.voted_id is None else record.voted_id
        leader = _NONE if record.leader_id is None else record.leader_id
        content: dict[str, Any] = {"leaderId": leader, "leaderEpoch": record.leader_epoch, "votedId": voted}
        if kraft_version > 0:
            content["votedDirectoryId"] = uuid_text(record.voted_directory_id or ZERO_UUID)
            content["data_version"] = 1
        else:
            content = {
                "clusterId": "",
                **content,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in voters],
                "data_version": 0,
            }
        write_atomically(self._fs, self.path, json.dumps(content, separators=(",", ":")).encode())

    def _integer(self, content: dict[str, Any], key: str) -> int:
        value = content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not -_INT32 <= value < _INT32:
            raise CorruptCheckpoint(self.path, 1, f"{key} is {value!r}, expected an integer of 32 bits")
        return value

    def _directory_id(self, content: dict[str, Any]) -> UUID | None:
        text = content.get("votedDirectoryId")
        try:
            directory_id = uuid_from_text(text) if isinstance(text, str) else ZERO_UUID
        except ValueError as error:
            raise CorruptCheckpoint(self.path, 1, f"votedDirectoryId: {error}") from error
        return None if directory_id == ZERO_UUID else directory_id
