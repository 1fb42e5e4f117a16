"""What the objects of a topic in the object store cost.

The prices are those of the user's contract. Reads are not included: the console does not know their number.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass

_GB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPrices:
    """The prices of an object store: of 2^30 bytes for a month, and of 1,000 requests that write."""

    gb_month: float = 0.0
    thousand_requests: float = 0.0
    currency: str = "USD"

    def cost(self, objects: int, size_bytes: int) -> dict[str, float | str] | None:
        """Return the cost of a month and of the requests that wrote the objects; None without prices."""
        if not self.gb_month and not self.thousand_requests:
            return None
        return {
            "month": self.gb_month * size_bytes / _GB,
            "requests": self.thousand_requests * objects / 1000,
            "currency": self.currency,
        }


NO_PRICES: Final = TierPrices()
