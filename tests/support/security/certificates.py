"""Certificate authorities and certificates that tests create: those of development clusters."""

from __future__ import annotations

from tidelog.security.certificate_authority import DAY, Authority, Identity, common_name

__all__ = ["DAY", "Authority", "Identity", "common_name"]
