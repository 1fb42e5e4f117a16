"""The SCRAM credentials in the metadata, and substitutes for users that have none.

An unknown user gets a salt and a number of iterations like any other user. The salt is the same in every
attempt, and on every node: it is derived from the stored key of the first user, which all nodes have. That
user knows this key, and could therefore find out which other users exist.

I/O: none; the image is passed as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.base.randomness import Randomness
from tidelog.broker.security.authentication.substitutes import (
    SALT_BYTES,
    SALT_BYTES_MAX,
    SubstituteCredentials,
    derived_salt,
)
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramKeys,
    ScramMechanism,
)

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
        self._substitutes = SubstituteCredentials(randomness)
        self._records: _Records | None = None
        self._templates: dict[ScramMechanism, _Template] = {}

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return the credential of `user`; for an unknown user one that no password matches."""
        records = self._image().scram_credentials
        record = records.get((user, mechanism))
        # Created in any case, so that the time of the response does not depend on whether the user exists.
        substitute = self._substitute(user, mechanism, self._template(records, mechanism))
        if record is None:
            return substitute
        return ScramCredential(
            record.salt, record.iterations, ScramKeys(record.stored_key, record.server_key)
        )

    def _substitute(self, user: str, mechanism: ScramMechanism, template: _Template) -> ScramCredential:
        salt = derived_salt(template.secret, user, template.salt_bytes)
        return self._substitutes.create(user, mechanism, salt, template.iterations)

    def _template(self, records: _Records, mechanism: ScramMechanism) -> _Template:
        if records is not self._records:
            self._records, self._templates = records, {}
        template = self._templates.get(mechanism)
        if template is None:
            template = self._templates[mechanism] = self._create_template(records, mechanism)
        return template

    def _create_template(self, records: _Records, mechanism: ScramMechanism) -> _Template:
        users = [user for user, kind in records if kind == mechanism]
        if not users:
            return _Template(self._substitutes.secret, SALT_BYTES, ITERATIONS_MIN)
        record = records[min(users), mechanism]
        return _Template(record.stored_key, min(len(record.salt), SALT_BYTES_MAX), record.iterations)
