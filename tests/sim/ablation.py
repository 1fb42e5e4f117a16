"""Replaces single functions of the product while a simulation runs, to show that each rule is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch


class Ablation(NamedTuple):
    """The attribute `name` of `owner`, a class or module, and its replacement."""

    owner: Any
    name: str
    replacement: Any


@contextmanager
def replace_rules(ablations: Iterable[Ablation]) -> Iterator[None]:
    """Apply `ablations` for the length of the block."""
    with ExitStack() as stack:
        for ablation in ablations:
            stack.enter_context(patch.object(ablation.owner, ablation.name, ablation.replacement))
        yield
