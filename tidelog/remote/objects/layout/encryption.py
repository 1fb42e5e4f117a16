"""Envelope encryption: every segment has its own data key, which an RSA key pair wraps.

    transformed chunk = IV (12, random) | AES-256-GCM of the chunk with the segment's AAD | tag (16)
    wrapped data key  = <key pair id>:<base64>

The active key pair wraps the data keys of new segments. The other pairs of the ring still unwrap the keys
that they wrapped earlier, so that keys can be rotated without rewriting segments.

Source: AesEncryptionProvider, RsaEncryptionProvider, EncryptedDataKey of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.layout.pieces import Buffer
from tidelog.remote.objects.layout.rsa_oaep import UnwrapError, unwrap, wrap

DATA_KEY_BYTES: Final = 32
AAD_BYTES: Final = 32
IV_BYTES: Final = 12
TAG_BYTES: Final = 16
_DATA_KEYS_LABEL: Final = b"tidelog data keys"
OVERHEAD_BYTES: Final = IV_BYTES + TAG_BYTES
"""The bytes that encryption adds to a chunk."""


class DecryptError(ValueError):
    """The data was not encrypted with this key, or is damaged."""


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key and the additional authenticated data of one segment."""

    key: bytes
    aad: bytes

    def __repr__(self) -> str:
        return "DataKey([hidden])"

    def encrypt(self, data: Buffer) -> bytes:
        """Return the IV, the ciphertext and the tag of `data`."""
        iv = secrets.token_bytes(IV_BYTES)
        return iv + AESGCM(self.key).encrypt(iv, data, self.aad)

    def decrypt(self, data: Buffer) -> bytes:
        """Return the plaintext of `data`. Errors: DecryptError if the tag does not match."""
        view = memoryview(data)
        try:
            return AESGCM(self.key).decrypt(view[:IV_BYTES], view[IV_BYTES:], self.aad)
        except (InvalidTag, ValueError) as error:
            raise DecryptError(f"the tag of {len(data)} encrypted bytes does not match") from error


class DataKeys:
    """Data keys by name: always the same key for one name, and of no use to find the key of another one.

    `secret` is random by default: then no other object returns the same keys.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secrets.token_bytes(DATA_KEY_BYTES) if secret is None else secret

    def key_of(self, name: str) -> DataKey:
        """Return the data key of `name` and its AAD."""
        size = DATA_KEY_BYTES + AAD_BYTES
        data = HKDFExpand(algorithm=SHA256(), length=size, info=name.encode()).derive(self._secret)
        return DataKey(data[:DATA_KEY_BYTES], data[DATA_KEY_BYTES:])


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One key-encryption key."""

    public: RSAPublicKey
    private: RSAPrivateKey


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Key pairs by id; `active` wraps new data keys. Invariant: `active` is one of them."""

    active: str
    pairs: Mapping[str, KeyPair]

    def data_keys(self) -> DataKeys:
        """Return the data keys that every process with the same active key pair uses.

        A put of one process may be executed after that of another one, which writes the same object again: a
        repair, or a repeated restore. Both must have the same key. It is derived from the private key, with
        which the wrapped data keys can be read anyway.
        """
        private_bytes = self.pairs[self.active].private.private_bytes(
            Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
        )
        return DataKeys(hashlib.sha256(_DATA_KEYS_LABEL + private_bytes).digest())

    def wrap(self, data_key: bytes) -> str:
        """Return `data_key` in the form of the manifest."""
        wrapped = wrap(data_key, self.pairs[self.active].public)
        return f"{self.active}:{base64.b64encode(wrapped).decode()}"

    def unwrap(self, text: str) -> bytes:
        """Return the data key of a manifest.

        Errors: DecryptError if its key pair is not in the ring or does not match.
        """
        pair_id, _, encoded = text.partition(":")
        pair = self.pairs.get(pair_id)
        if pair is None:
            raise DecryptError(f"key pair {pair_id!r} is not in the ring: {', '.join(self.pairs)}")
        try:
            key = unwrap(base64.b64decode(encoded, validate=True), pair.private)
        except (binascii.Error, UnwrapError) as error:
            raise DecryptError(f"cannot unwrap the data key of key pair {pair_id!r}: {error}") from error
        if len(key) not in (16, 24, DATA_KEY_BYTES):
            raise DecryptError(
                f"the data key of key pair {pair_id!r} has {len(key)} bytes; expected are 16, 24 or 32"
            )
        return key
