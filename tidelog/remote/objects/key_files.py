"""The key pairs of encryption, read from PEM files.

The keys are those of Aiven's plugin: `encryption.key.pairs`, `encryption.key.pair.id`, and two keys with file
names for each pair.

I/O: reads the files. Errors: ConfigError, one line with the key, the value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from tidelog.base.config_definition import (
    ConfigError,
    ConfigValue,
)
from tidelog.remote.objects.layout.encryption import KeyPair, KeyRing
from tidelog.remote.objects.layout.rsa_oaep import MODULUS_BITS_MIN

_KEY_PAIRS: Final = "encryption.key.pairs."


def key_ring(parsed: Mapping[str, ConfigValue], values: Mapping[str, str]) -> KeyRing:
    """Return all key pairs; `parsed` contains the keys of `CONFIGS` in `values`."""
    active, pair_ids = parsed["encryption.key.pair.id"], parsed["encryption.key.pairs"]
    if not isinstance(pair_ids, tuple) or not pair_ids:
        raise ConfigError("encryption.key.pairs", pair_ids, "allowed is a list of key pair ids")
    if active not in pair_ids:
        names = ", ".join(pair_ids)
        raise ConfigError(
            "encryption.key.pair.id", active, f"allowed is one of encryption.key.pairs: {names}"
        )
    return KeyRing(str(active), {pair_id: _key_pair(pair_id, values) for pair_id in pair_ids})


def key_file_names(pair_id: str) -> tuple[str, str]:
    """Return the keys with the file names of a pair: of the public key and of the private key."""
    return f"{_KEY_PAIRS}{pair_id}.public.key.file", f"{_KEY_PAIRS}{pair_id}.private.key.file"


def _key_pair(pair_id: str, values: Mapping[str, str]) -> KeyPair:
    if not pair_id.strip() or ":" in pair_id:
        raise ConfigError(
            "encryption.key.pairs", pair_id, "allowed is an id that is not blank and has no colon"
        )
    public_name, private_name = key_file_names(pair_id)
    try:
        public = load_pem_public_key(_read_file(public_name, values))
    except ValueError as error:
        raise ConfigError(public_name, values.get(public_name), _one_line(error)) from error
    try:
        private = load_pem_private_key(_read_file(private_name, values), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(private_name, values.get(private_name), _one_line(error)) from error
    if not isinstance(public, RSAPublicKey) or public.key_size < MODULUS_BITS_MIN:
        allowed = f"allowed is an RSA public key of at least {MODULUS_BITS_MIN} bits"
        raise ConfigError(public_name, values[public_name], allowed)
    if not isinstance(private, RSAPrivateKey) or private.public_key() != public:
        allowed = f"allowed is the RSA private key that belongs to {values[public_name]}"
        raise ConfigError(private_name, values[private_name], allowed)
    return KeyPair(public, private)


def _read_file(name: str, values: Mapping[str, str]) -> bytes:
    path = values.get(name)
    if not path:
        raise ConfigError(name, path, "allowed is the path of a PEM file")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(name, path, f"cannot read the file: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return f"allowed is a PEM file of an RSA key: {' '.join(str(error).split())}"
