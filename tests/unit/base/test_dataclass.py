from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from tidelog.base.dataclass import dataclass

ClassMaker = Callable[[Callable[..., Any]], type[Any]]


def _frozen(decorator: Callable[..., Any]) -> type[Any]:
    @decorator(frozen=True, slots=True, kw_only=True)
    class Range:
        """A range of offsets."""

        first: int
        end: int = 10
        notes: list[str] = field(default_factory=list)

    return Range


def _mutable(decorator: Callable[..., Any]) -> type[Any]:
    @decorator(slots=True)
    class Range:
        """A range of offsets, with its length."""

        first: int
        end: int = 10
        label: str = field(default="", kw_only=True, compare=False)
        length: int = field(init=False)
        secret: str = field(default="x", init=False, repr=False)

        def __post_init__(self) -> None:
            self.length = self.end - self.first

    return Range


def _ordered(decorator: Callable[..., Any]) -> type[Any]:
    @decorator(frozen=True, slots=True, order=True)
    class Range:
        """A range of offsets that can be sorted."""

        first: int
        end: int = 10

    return Range


def _identity(decorator: Callable[..., Any]) -> type[Any]:
    @decorator(slots=True, eq=False, repr=False)
    class Range:
        """An object that equals only itself."""

        first: int
        end: int = 10

    return Range


def _with_own_methods(decorator: Callable[..., Any]) -> type[Any]:
    @decorator(frozen=True, slots=True)
    class Range:
        """A range that defines its own methods."""

        first: int
        end: int = 10

        def __repr__(self) -> str:
            return f"{self.first}-{self.end}"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.first == other.first

    return Range


def _inherited(decorator: Callable[..., Any]) -> type[Any]:
    @decorator(frozen=True, slots=True)
    class Base:
        """The fields of all ranges."""

        first: int
        end: int = 10

    @decorator(frozen=True, slots=True)
    class Range(Base):
        """A range with other defaults."""

        end: int = 20
        unit: str = "records"

    return Range


ALL = (_frozen, _mutable, _ordered, _identity, _with_own_methods, _inherited)


@dataclass(frozen=True, slots=True)
class Position:
    """A value at the top level of a module, which pickle finds."""

    offset: int
    epochs: tuple[int, ...] = ()


@dataclass(slots=True)
class Node:
    """A value that refers to itself."""

    next: Node | None = None


def _result(call: Callable[[], object]) -> object:
    try:
        return call()
    except (TypeError, FrozenInstanceError) as error:
        return type(error), str(error)


def _behaviour(cls: type[Any]) -> list[object]:
    one, same, other = cls(first=1), cls(first=1), cls(first=2, end=3)

    def is_hashable() -> object:
        return (hash(one) == hash(same)) == (one == same)

    return [
        [repr(value) for value in (one, other) if "__repr__" in vars(cls)],
        one == same,
        one == other,
        one != object(),
        _result(is_hashable),
        _result(lambda: one < other),
        _result(lambda: sorted([other, one]) == [one, other]),
        _result(lambda: cls()),
        _result(lambda: dataclasses.asdict(cls(1, 2))),
        _result(lambda: cls(first=1, unknown=2)),
        _result(lambda: setattr(one, "first", 5)),
        _result(lambda: delattr(same, "first")),
        dataclasses.asdict(dataclasses.replace(other, end=7)),
        dataclasses.asdict(other),
        [(each.name, each.default, each.init, each.kw_only) for each in dataclasses.fields(cls)],
        cls.__match_args__,
        hasattr(one, "__dict__"),
        cls.__doc__,
    ]


@pytest.mark.parametrize("make", ALL)
def test_classes_behave_as_with_the_standard_decorator(make: ClassMaker) -> None:
    assert _behaviour(make(dataclass)) == _behaviour(make(dataclasses.dataclass))


def test_the_constructor_is_compiled_with_the_first_instance() -> None:
    cls = _frozen(dataclass)
    before = cls.__init__
    first = cls(first=1)
    compiled = cls.__init__
    assert compiled is not before
    assert cls(first=1) == first
    assert cls.__init__ is compiled


def test_defaults_of_a_factory_are_not_shared() -> None:
    cls = _frozen(dataclass)
    assert cls(first=1).notes is not cls(first=1).notes


def test_fields_called_like_a_part_of_the_constructor_hide_no_default() -> None:
    """With a field `missing` that was set, fields with a factory got the value that stands for no value."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Report:
        """A value with such fields."""

        groups: list[str] = field(default_factory=list)
        factory_groups: str = ""
        kept: int = 7
        default_kept: int = 8
        set_groups: int = 9
        missing: list[str] = field(default_factory=list)

    report = Report(missing=["topic"])
    assert (report.groups, report.missing) == ([], ["topic"])
    assert (report.kept, report.default_kept, report.set_groups) == (7, 8, 9)
    assert Report(factory_groups="x", default_kept=1, set_groups=2).groups == []


def test_copies_and_pickled_values_are_equal() -> None:
    position = Position(7, (1, 2))
    assert copy.copy(position) == position
    assert copy.deepcopy(position) == position
    assert pickle.loads(pickle.dumps(position)) == position


def test_a_value_that_refers_to_itself_has_a_text() -> None:
    node = Node()
    node.next = node
    assert repr(node) == "Node(next=...)"


def test_a_class_without_slots_is_refused() -> None:
    with pytest.raises(TypeError, match="slots=False"):
        dataclass(slots=False)
