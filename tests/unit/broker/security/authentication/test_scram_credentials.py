"""SCRAM credentials of the metadata, and what an unknown user gets instead."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.support.metadata.images import image_with_brokers
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.security.scram.credentials import ITERATIONS_MIN, ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def image(*users: str, iterations: int = 8192) -> MetadataImage:
    credentials = {
        (user, int(SHA_256)): UserScramCredentialRecord(
            name=user,
            mechanism=SHA_256,
            salt=f"salt of {user}".encode(),
            stored_key=b"stored" + user.encode(),
            server_key=b"server",
            iterations=iterations,
        )
        for user in users
    }
    return replace(image_with_brokers(1), scram_credentials=credentials)


def credentials(stored: MetadataImage, seed: int = 1) -> ScramCredentials:
    return ScramCredentials(lambda: stored, random.Random(seed))


def test_a_stored_credential_is_found() -> None:
    stored = credentials(image("alice")).find("alice", SHA_256)
    assert (stored.salt, stored.iterations, stored.keys.stored_key) == (
        b"salt of alice",
        8192,
        b"storedalice",
    )


def test_an_unknown_user_looks_like_a_known_one() -> None:
    stored = image("alice", "bob")
    here, elsewhere = credentials(stored).find("eve", SHA_256), credentials(stored, 2).find("eve", SHA_256)
    assert (here.salt, here.iterations, len(here.salt)) == (elsewhere.salt, 8192, len(b"salt of alice"))
    assert here.salt != credentials(stored).find("mallory", SHA_256).salt
    assert here.keys.stored_key != elsewhere.keys.stored_key


def test_a_mechanism_without_any_credential_returns_one_of_the_minimal_iterations() -> None:
    stored = credentials(image("alice")).find("alice", SHA_512)
    assert (stored.iterations, len(stored.salt), len(stored.keys.stored_key)) == (ITERATIONS_MIN, 26, 64)


def test_a_change_of_the_metadata_counts_at_once() -> None:
    images = [image()]
    stored = ScramCredentials(lambda: images[-1], random.Random(1))
    assert stored.find("alice", SHA_256).salt != b"salt of alice"
    images.append(image("alice", iterations=4096))
    assert stored.find("alice", SHA_256).salt == b"salt of alice"
    assert stored.find("eve", SHA_256).iterations == 4096
