"""SCRAM credentials are stored as keys and validated as in Kafka."""

from __future__ import annotations

import hashlib
from base64 import b64decode

import pytest

from tests.support.metadata.images import image_after_records, image_after_result, image_with_brokers
from tidelog.cluster.controller.scram import alter_scram_credentials
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.scram import Credential, describe_credentials
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.steps import run_steps

IMAGE = image_with_brokers(1, features=True)
SHA_256, SHA_512 = 1, 2


def upsertion(name: str = "alice", mechanism: int = SHA_256, **changes: object) -> ScramCredentialUpsertion:
    values = {"iterations": 4096, "salt": b"salt", "salted_password": b"salted"} | changes
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, **values)  # type: ignore[arg-type]


def deletion(name: str = "alice", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter_credentials(
    image: MetadataImage,
    *,
    upsertions: tuple[ScramCredentialUpsertion, ...] = (),
    deletions: tuple[ScramCredentialDeletion, ...] = (),
) -> tuple[MetadataImage, dict[str, ErrorCode]]:
    request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
    result = run_steps(alter_scram_credentials(image, request))
    return image_after_result(image, result), {user: outcome.code for user, outcome in result.reply.items()}


def test_a_credential_is_stored_as_the_keys_of_rfc_5802() -> None:
    # The example of RFC 7677: user "user", password "pencil".
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    image, codes = alter_credentials(
        IMAGE, upsertions=(upsertion("user", salt=salt, salted_password=salted),)
    )
    assert codes == {"user": ErrorCode.NONE}
    record = image.scram_credentials["user", SHA_256]
    assert record.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
    assert record.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
    assert (record.iterations, record.salt) == (4096, salt)


def test_each_mechanism_has_its_own_credential() -> None:
    image, _ = alter_credentials(IMAGE, upsertions=(upsertion(),))
    image, _ = alter_credentials(image, upsertions=(upsertion(mechanism=SHA_512, iterations=8192),))
    [description] = run_steps(describe_credentials(image, ["alice"]))
    assert description.credentials == (Credential(SHA_256, 4096), Credential(SHA_512, 8192))
    assert len(image.scram_credentials["alice", SHA_512].stored_key) == 64
    image, codes = alter_credentials(image, deletions=(deletion(mechanism=SHA_256),))
    assert codes == {"alice": ErrorCode.NONE}
    assert set(image.scram_credentials) == {("alice", SHA_512)}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_an_invalid_credential_is_refused(change: ScramCredentialUpsertion, code: ErrorCode) -> None:
    image, codes = alter_credentials(IMAGE, upsertions=(change, upsertion("bob")))
    assert codes == {change.name: code, "bob": ErrorCode.NONE}
    assert {user for user, _ in image.scram_credentials} == {"bob"}


@pytest.mark.parametrize("iterations", [4096, 16_384])
def test_the_minimum_and_maximum_of_iterations_are_allowed(iterations: int) -> None:
    assert alter_credentials(IMAGE, upsertions=(upsertion(iterations=iterations),))[1] == {
        "alice": ErrorCode.NONE
    }


def test_deleting_an_absent_credential_returns_resource_not_found() -> None:
    assert alter_credentials(IMAGE, deletions=(deletion(),))[1] == {"alice": ErrorCode.RESOURCE_NOT_FOUND}
    assert alter_credentials(IMAGE, deletions=(deletion(mechanism=9),))[1] == {
        "alice": ErrorCode.UNSUPPORTED_SASL_MECHANISM
    }


def test_a_user_may_occur_once_in_a_request() -> None:
    image, codes = alter_credentials(IMAGE, upsertions=(upsertion(), upsertion(mechanism=SHA_512)))
    assert (codes, dict(image.scram_credentials)) == ({"alice": ErrorCode.DUPLICATE_RESOURCE}, {})
    image, _ = alter_credentials(IMAGE, upsertions=(upsertion(),))
    image, codes = alter_credentials(image, upsertions=(upsertion(),), deletions=(deletion(),))
    assert codes == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert set(image.scram_credentials) == {("alice", SHA_256)}


def test_scram_needs_a_metadata_version_with_its_records() -> None:
    old = image_after_records([FeatureLevelRecord(name="metadata.version", feature_level=10)], IMAGE)
    assert alter_credentials(old, upsertions=(upsertion(),))[1] == {"alice": ErrorCode.UNSUPPORTED_VERSION}


def test_users_are_described_all_or_by_name() -> None:
    image, _ = alter_credentials(IMAGE, upsertions=(upsertion("bob"), upsertion("alice")))
    assert [description.user for description in run_steps(describe_credentials(image, []))] == [
        "alice",
        "bob",
    ]
    codes = {
        description.user: description.code
        for description in run_steps(describe_credentials(image, ["bob", "carol", "x", "x"]))
    }
    assert codes == {
        "bob": ErrorCode.NONE,
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
        "x": ErrorCode.DUPLICATE_RESOURCE,
    }
