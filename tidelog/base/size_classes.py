"""Items in classes by the power of two of their size, to find one of the largest items quickly.

Adding, removing and finding an item take constant time for any number of items. I/O: none.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)


class SizeClasses(Generic[ItemT]):
    """A collection of items with their sizes.

    Invariant: `total_bytes` is the sum of the sizes of the items.
    """

    __slots__ = ("_classes", "_sizes", "total_bytes")

    def __init__(self) -> None:
        self.total_bytes = 0
        self._sizes: dict[ItemT, int] = {}
        self._classes: dict[int, dict[ItemT, None]] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, item: ItemT) -> bool:
        return item in self._sizes

    def add(self, item: ItemT, size_bytes: int) -> None:
        """Add `item`, which must not be in the collection."""
        assert item not in self._sizes, f"{item} is in the collection already"
        self._sizes[item] = size_bytes
        self.total_bytes += size_bytes
        same_size = self._classes.get(size_bytes.bit_length())
        if same_size is None:
            same_size = self._classes[size_bytes.bit_length()] = {}
        same_size[item] = None

    def remove(self, item: ItemT) -> None:
        """Remove `item`, which must be in the collection."""
        size_bytes = self._sizes.pop(item)
        self.total_bytes -= size_bytes
        same_size = self._classes[size_bytes.bit_length()]
        del same_size[item]
        if not same_size:
            del self._classes[size_bytes.bit_length()]

    def largest(self) -> tuple[ItemT, int]:
        """Return the item that was added first to the highest class, and its size."""
        item = next(iter(self._classes[max(self._classes)]))
        return item, self._sizes[item]
