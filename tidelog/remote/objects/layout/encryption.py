"""Envelope encryption: every segment has a data key of its own, wrapped by an RSA key pair of the ring.

    transformed chunk = IV (12, random) | AES-256-GCM of the chunk with the segment's AAD | tag (16)
    wrapped data key  = <key pair id>:<base64>

New segments are wrapped by the active pair; the others of the ring still unwrap what they once wrapped, so
keys rotate without rewriting segments.

Source: AesEncryptionProvider, RsaEncryptionProvider, EncryptedDataKey of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidelog.remote.objects.layout.pieces import Buffer
from tidelog.remote.objects.layout.rsa_oaep import UnwrapError, unwrap, wrap

DATA_KEY_BYTES: Final = 32
AAD_BYTES: Final = 32
IV_BYTES: Final = 12
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = IV_BYTES + TAG_BYTES
"""What encryption adds to a chunk."""


class DecryptError(ValueError):
    """Not encrypted with this key, or damaged."""


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key and the additional authenticated data of one segment."""

    key: bytes
    aad: bytes

    def __repr__(self) -> str:
        return "DataKey([hidden])"

    @staticmethod
    def random() -> DataKey:
        """A new key, and AAD that has nothing to do with it."""
        return DataKey(secrets.token_bytes(DATA_KEY_BYTES), secrets.token_bytes(AAD_BYTES))

    def encrypt(self, data: Buffer) -> bytes:
        """IV, ciphertext and tag of `data`."""
        iv = secrets.token_bytes(IV_BYTES)
        return iv + AESGCM(self.key).encrypt(iv, data, self.aad)

    def decrypt(self, data: Buffer) -> bytes:
        """What `encrypt` was given; DecryptError when the tag does not fit."""
        view = memoryview(data)
        try:
            return AESGCM(self.key).decrypt(view[:IV_BYTES], view[IV_BYTES:], self.aad)
        except (InvalidTag, ValueError) as error:
            raise DecryptError(f"{len(data)} encrypted bytes do not fit their tag") from error


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One key-encryption key."""

    public: RSAPublicKey
    private: RSAPrivateKey


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Key pairs by id; `active` wraps new data keys. Invariant: `active` is among them."""

    active: str
    pairs: Mapping[str, KeyPair]

    def wrap(self, data_key: bytes) -> str:
        """`data_key` as the manifest has it."""
        wrapped = wrap(data_key, self.pairs[self.active].public)
        return f"{self.active}:{base64.b64encode(wrapped).decode()}"

    def unwrap(self, text: str) -> bytes:
        """The data key of a manifest; DecryptError when its pair is not in the ring or does not fit."""
        pair_id, _, encoded = text.partition(":")
        pair = self.pairs.get(pair_id)
        if pair is None:
            raise DecryptError(f"key pair {pair_id!r} is not in the ring: {', '.join(self.pairs)}")
        try:
            key = unwrap(base64.b64decode(encoded, validate=True), pair.private)
        except (binascii.Error, UnwrapError) as error:
            raise DecryptError(f"the data key wrapped by {pair_id!r} cannot be read: {error}") from error
        if len(key) not in (16, 24, DATA_KEY_BYTES):
            raise DecryptError(f"the data key wrapped by {pair_id!r} has {len(key)} bytes")
        return key
