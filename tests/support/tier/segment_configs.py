"""All formats of stored segments as configs of the storage manager, and key pairs for them."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tidelog.remote.objects.layout.encryption import KeyPair

KINDS = ("plain", "compressed", "encrypted", "compressed_encrypted")
ALL_FIELDS = "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY"


@lru_cache
def key_pair(number: int = 0) -> KeyPair:
    """Return a key pair; the same number returns the same pair within a run."""
    private = rsa.generate_private_key(65537, 2048)
    return KeyPair(private.public_key(), private)


def write_key_pair(pair: KeyPair, directory: Path) -> tuple[Path, Path]:
    """Write the PEM files of a key pair: public and private."""
    public, private = directory / "public.pem", directory / "private.pem"
    public.write_bytes(
        pair.public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    private.write_bytes(
        pair.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return public, private


def encryption_configs(public: Path, private: Path, pair_id: str = "key1") -> dict[str, str]:
    """Return configs of encryption with one key pair."""
    return {
        "encryption.enabled": "true",
        "encryption.key.pair.id": pair_id,
        "encryption.key.pairs": pair_id,
        f"encryption.key.pairs.{pair_id}.public.key.file": str(public),
        f"encryption.key.pairs.{pair_id}.private.key.file": str(private),
    }


def configs_of(kind: str, public: Path, private: Path) -> dict[str, str]:
    """Return the configs of one of KINDS: small chunks, a prefix, all custom metadata."""
    configs = {"chunk.size": "1000", "key.prefix": "tier/a-", "custom.metadata.fields.include": ALL_FIELDS}
    if "compressed" in kind:
        configs["compression.enabled"] = "true"
    if "encrypted" in kind:
        configs |= encryption_configs(public, private)
    return configs


def compressible(size: int, seed: int = 0) -> bytes:
    """Return bytes that are compressible, but not highly."""
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randint(1, 12)) for _ in range(20)]
    data = bytearray()
    while len(data) < size:
        data += chance.choice(words)
    return bytes(data[:size])
