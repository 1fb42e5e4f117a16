"""RSA-OAEP with SHA3-512 (MGF1 of the same hash, empty label), which wraps data keys.

It is implemented here because OpenSSL's bindings offer OAEP with SHA-1 and SHA-2 only. The private operation
is blinded, so that its duration reveals nothing about the key. Wrapped keys come from our own bucket.

Source: RFC 8017, sections 7.1 and B.2.1; RsaEncryptionProvider of Aiven's RemoteStorageManager for the hash.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

_HASH_BYTES: Final = 64
_LABEL_HASH: Final = hashlib.sha3_512(b"").digest()
MODULUS_BITS_MIN: Final = 8 * (32 + 2 * _HASH_BYTES + 2)
"""The minimum size of a key that can wrap a data key of 32 bytes."""


class UnwrapError(ValueError):
    """The wrapped key was not wrapped with this key, or is damaged."""


def wrap(message: bytes, key: RSAPublicKey) -> bytes:
    """Return `message`, encrypted for the owner of `key`. Errors: ValueError if it is too long."""
    numbers = key.public_numbers()
    length = _modulus_bytes(numbers.n)
    if len(message) > length - 2 * _HASH_BYTES - 2:
        raise ValueError(f"{len(message)} bytes are too many for a key of {key.key_size} bits")
    padding = bytes(length - len(message) - 2 * _HASH_BYTES - 2)
    block = _LABEL_HASH + padding + b"\x01" + message
    seed = secrets.token_bytes(_HASH_BYTES)
    masked_block = _xor(block, _mask(seed, len(block)))
    masked_seed = _xor(seed, _mask(masked_block, _HASH_BYTES))
    encoded = int.from_bytes(b"\x00" + masked_seed + masked_block, "big")
    return pow(encoded, numbers.e, numbers.n).to_bytes(length, "big")


def unwrap(wrapped: bytes, key: RSAPrivateKey) -> bytes:
    """Return the message that `wrap` encrypted. Errors: UnwrapError for another `key` or damaged bytes."""
    modulus = key.private_numbers().public_numbers.n
    length = _modulus_bytes(modulus)
    if len(wrapped) != length or int.from_bytes(wrapped, "big") >= modulus:
        raise UnwrapError(f"{len(wrapped)} wrapped bytes do not belong to a key of {key.key_size} bits")
    encoded = _private_operation(int.from_bytes(wrapped, "big"), key).to_bytes(length, "big")
    masked_seed, masked_block = encoded[1 : 1 + _HASH_BYTES], encoded[1 + _HASH_BYTES :]
    seed = _xor(masked_seed, _mask(masked_block, _HASH_BYTES))
    block = _xor(masked_block, _mask(seed, len(masked_block)))
    padding, separator, message = block[_HASH_BYTES:].partition(b"\x01")
    if encoded[0] or block[:_HASH_BYTES] != _LABEL_HASH or not separator or any(padding):
        raise UnwrapError("a wrapped key was not wrapped with this key, or is damaged")
    return message


def _private_operation(value: int, key: RSAPrivateKey) -> int:
    numbers = key.private_numbers()
    modulus, exponent = numbers.public_numbers.n, numbers.public_numbers.e
    blinding = secrets.randbelow(modulus - 2) + 2
    blinded_value = value * pow(blinding, exponent, modulus) % modulus
    by_p = pow(blinded_value % numbers.p, numbers.dmp1, numbers.p)
    by_q = pow(blinded_value % numbers.q, numbers.dmq1, numbers.q)
    result = by_q + (by_p - by_q) * numbers.iqmp % numbers.p * numbers.q
    return result * pow(blinding, -1, modulus) % modulus


def _mask(seed: bytes, length: int) -> bytes:
    blocks = -(-length // _HASH_BYTES)
    hashes = (hashlib.sha3_512(seed + number.to_bytes(4, "big")).digest() for number in range(blocks))
    return b"".join(hashes)[:length]


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def _modulus_bytes(modulus: int) -> int:
    return (modulus.bit_length() + 7) // 8
