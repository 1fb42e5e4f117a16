"""Changes of SCRAM credentials; a request may change a user only once.

Errors, per user: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND if there is no
credential to delete, DUPLICATE_RESOURCE, UNSUPPORTED_VERSION if the metadata.version does not support them.
Source: KIP-554, KIP-900; ScramControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tidelog.cluster.controller.result import SUCCESS, ControllerResult, Outcome
from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.protocol.metadata_records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.steps import Steps
from tidelog.security.scram.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    derive_keys,
)

# metadata.version 3.5-IV2.
_FIRST_WITH_SCRAM: Final = 11

_Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion
_Record: TypeAlias = RemoveUserScramCredentialRecord | UserScramCredentialRecord


def alter_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Steps[ControllerResult[dict[str, Outcome]]]:
    """Delete and set credentials; return the outcome of each user."""
    records: dict[str, _Record] = {}
    outcomes: dict[str, Outcome] = {}
    for change in _changes(request):
        yield None
        user = change.name
        try:
            if user in outcomes:
                records.pop(user, None)
                text = f"A user credential cannot be altered twice in the same request: {user!r}"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, text)
            records[user] = _record(image, change)
            outcomes[user] = SUCCESS
        except KafkaError as error:
            # The first error is reported.
            if outcomes.get(user, SUCCESS) is SUCCESS:
                outcomes[user] = Outcome.of(error)
    return ControllerResult(tuple(records.values()), outcomes)


def _changes(request: AlterUserScramCredentialsRequest) -> Iterator[_Change]:
    yield from request.deletions
    yield from request.upsertions


def _record(image: MetadataImage, change: _Change) -> _Record:
    level = image.features.get(METADATA_VERSION, 0)
    if level < _FIRST_WITH_SCRAM:
        text = f"{METADATA_VERSION} {level} does not support SCRAM"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    if not change.name:
        raise _unacceptable("Username must not be empty")
    if change.mechanism not in tuple(ScramMechanism):
        text = f"Unknown SCRAM mechanism {change.mechanism}"
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, change.mechanism) not in image.scram_credentials:
            text = f"Attempt to delete a user credential that does not exist: user {change.name!r}"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        raise _unacceptable(f"Too few iterations: {change.iterations}, must be at least {ITERATIONS_MIN}")
    if change.iterations > ITERATIONS_MAX:
        raise _unacceptable(f"Too many iterations: {change.iterations}, must be at most {ITERATIONS_MAX}")
    if not change.salt or not change.salted_password:
        raise _unacceptable("Salt and salted password must not be empty")
    keys = derive_keys(ScramMechanism(change.mechanism), change.salted_password)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=change.iterations,
    )


def _unacceptable(text: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
