"""The settings of writes and reads of segments as objects."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.objects.layout.custom_metadata import CustomField
from tidelog.remote.objects.layout.encryption import KeyRing
from tidelog.remote.objects.layout.object_keys import ObjectKeys
from tidelog.remote.objects.verification import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of writes and reads of segments."""

    keys: ObjectKeys
    chunk_size: int
    compression: bool
    compression_heuristic: bool
    key_ring: KeyRing | None
    """Segments are encrypted if there is a key ring; encrypted segments cannot be read without it."""
    custom_fields: tuple[CustomField, ...]
    manifest_cache: CacheSettings
    index_cache: CacheSettings
    verification: Verification
