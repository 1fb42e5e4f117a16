"""A dataclass with slots whose methods cost almost nothing at import.

`dataclasses.dataclass` writes and compiles up to eight methods of a class when its module is imported. The
broker has some 400 such classes: this took a third of the time in which a broker starts in a test. Here only
the constructor is compiled, when the first instance is created; the other methods are shared functions.

Parameters, fields and behaviour are those of the standard decorator, and type checkers see that one.
`fields`, `replace`, `asdict`, pickling and pattern matching support these classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter, ge, gt, le, lt
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

__all__ = ["compile_constructor", "dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, slots, frozen=False, kw_only=False, eq=True, order=False, repr=True):
        """Return the decorator of a dataclass with these parameters; `slots` must be true."""
        if not slots:
            raise TypeError("slots=False: use dataclasses.dataclass for a class without slots")
        declare = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)

        def decorate(cls):
            is_hashable = _defines_hash(cls)
            cls = declare(cls)
            methods = {"__init__": _first_constructor(cls, is_frozen=frozen)}
            if repr:
                methods["__repr__"] = _repr
            if eq:
                methods |= _comparisons(cls, has_order=order)
                if not frozen:
                    methods["__hash__"] = None
            for name, method in methods.items():
                if name not in cls.__dict__ or (name == "__hash__" and not is_hashable):
                    setattr(cls, name, method)
            if frozen:
                for name, method in _FROZEN.items():
                    setattr(cls, name, method)
            return cls

        return decorate


def compile_constructor(cls: type, *, is_frozen: bool) -> Callable[..., None]:
    """Return the `__init__` of a dataclass with slots: a parameter for each field, with its default.

    The other names of its code begin with two underscores. No field has such a name, because Python puts the
    name of the class before it.
    """
    names: dict[str, Any] = {"__missing": MISSING}
    positional, keywords, lines = ["self"], list[str](), list[str]()
    for each in fields(cls):
        value, default = _source_of(each, names)
        if each.init:
            (keywords if each.kw_only else positional).append(each.name + default)
        if value is None:
            continue
        if is_frozen:
            names[f"__set_{each.name}"] = getattr(cls, each.name).__set__
            lines.append(f"__set_{each.name}(self, {value})")
        else:
            lines.append(f"self.{each.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    body = "".join(f"\n    {line}" for line in lines or ["pass"])
    exec(f"def __init__({parameters}):{body}", names)
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _source_of(each: Field[Any], names: dict[str, Any]) -> tuple[str | None, str]:
    """Return the expression of a field's value, None if it has no value, and the default of its parameter."""
    default, factory = f"__default_{each.name}", f"__factory_{each.name}"
    if each.default_factory is not MISSING:
        names[factory] = each.default_factory
        if not each.init:
            return f"{factory}()", ""
        return f"{factory}() if {each.name} is __missing else {each.name}", "=__missing"
    if each.default is not MISSING:
        names[default] = each.default
        return (each.name, f"={default}") if each.init else (default, "")
    return (each.name if each.init else None), ""


def _first_constructor(cls: type, *, is_frozen: bool) -> Callable[..., None]:
    """Return an `__init__` that replaces itself with the compiled one."""

    def __init__(self: Any, *values: Any, **keywords: Any) -> None:
        constructor = compile_constructor(cls, is_frozen=is_frozen)
        setattr(cls, "__init__", constructor)  # noqa: B010 - mypy refuses a plain assignment
        constructor(self, *values, **keywords)

    return __init__


def _comparisons(cls: type, *, has_order: bool) -> dict[str, Callable[..., Any]]:
    """Return the methods that compare the fields of two objects of `cls`, and the hash."""
    names = [each.name for each in fields(cls) if each.compare]
    values = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, object], bool]:
        def method(self: Any, other: object) -> bool:
            same = other.__class__ is self.__class__
            return compare(values(self), values(other)) if same else NotImplemented

        return method

    methods: dict[str, Callable[..., Any]] = {"__eq__": __eq__, "__hash__": __hash__}
    if has_order:
        methods |= {f"__{compare.__name__}__": ordered(compare) for compare in (lt, le, gt, ge)}
    return methods


def _defines_hash(cls: type) -> bool:
    """Return whether the body of `cls` defines its hash; Python sets it to None in a body with `__eq__`."""
    body = vars(cls)
    return "__hash__" in body and not (body["__hash__"] is None and "__eq__" in body)


@recursive_repr()
def _repr(self: Any) -> str:
    values = ", ".join([f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr])
    return f"{type(self).__qualname__}({values})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_FROZEN: Final = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
