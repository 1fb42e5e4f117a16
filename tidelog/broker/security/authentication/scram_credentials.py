"""The SCRAM credentials in the metadata, and substitutes for users that have none.

An unknown user gets a salt and a number of iterations like any other user, and fails with its proof.
Otherwise a client could find out which users exist. The salt of an unknown user is the same in every attempt,
and on every node: it is derived from the keys of the first stored credential, which all nodes have.

I/O: none; the image is passed as a function.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.base.randomness import Randomness
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramKeys,
    ScramMechanism,
)

_SALT_BYTES: Final = 26
"""The usual length of a salt that Apache Kafka generates."""
_KEY_BITS: Final = 512

_Records = Mapping[tuple[str, int], UserScramCredentialRecord]


class _Template(NamedTuple):
    """The properties of stored credentials that substitutes imitate."""

    secret: bytes
    salt_bytes: int
    iterations: int


class ScramCredentials:
    """Finds the credential of a user in the current metadata."""

    def __init__(self, image: Callable[[], MetadataImage], randomness: Randomness) -> None:
        self._image = image
        self._random_secret = randomness.getrandbits(_KEY_BITS).to_bytes(_KEY_BITS // 8)
        self._records: _Records | None = None
        self._templates: dict[ScramMechanism, _Template] = {}

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return the credential of `user`; for an unknown user one that no password matches."""
        records = self._image().scram_credentials
        record = records.get((user, mechanism))
        if record is None:
            return self._substitute(user, self._template(records, mechanism))
        return ScramCredential(
            record.salt, record.iterations, ScramKeys(record.stored_key, record.server_key)
        )

    def _substitute(self, user: str, template: _Template) -> ScramCredential:
        salt = hmac.digest(template.secret, b"salt of " + user.encode(), "sha512")[: template.salt_bytes]
        key = hmac.digest(self._random_secret, user.encode(), "sha512")
        # Random keys: no proof can match them without a preimage of the hash.
        return ScramCredential(salt, template.iterations, ScramKeys(key, key))

    def _template(self, records: _Records, mechanism: ScramMechanism) -> _Template:
        if records is not self._records:
            self._records, self._templates = records, {}
        found = self._templates.get(mechanism)
        if found is None:
            found = self._templates[mechanism] = self._new_template(records, mechanism)
        return found

    def _new_template(self, records: _Records, mechanism: ScramMechanism) -> _Template:
        users = [user for user, kind in records if kind == mechanism]
        if not users:
            return _Template(self._random_secret, _SALT_BYTES, ITERATIONS_MIN)
        record = records[min(users), mechanism]
        return _Template(record.stored_key, min(len(record.salt), 64), record.iterations)
