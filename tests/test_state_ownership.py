"""Checks that the state of an object is written only in the file of its class.

A class with a method that changes its attributes owns its state: other files call its methods. A value (a
class whose methods change nothing, such as a message, a result or a set of counters) may be filled by any
code.

The class of an assigned attribute is that of an annotated parameter; for other expressions it is unknown.
Then an assignment is an error if no class with an attribute of this name is a value, or belongs to the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).resolve().parent.parent

Function = ast.FunctionDef | ast.AsyncFunctionDef
CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}


class DefinedClass(NamedTuple):
    """A class of the product; `owns_state`: a method other than a constructor changes an attribute."""

    file: str
    name: str
    attributes: frozenset[str]
    owns_state: bool


def test_only_the_file_of_a_class_writes_the_attributes_of_its_objects() -> None:
    files = sorted((ROOT / "tidelog").rglob("*.py"))
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}
    assert foreign_writes(trees) == []


OWNER = """
class Owner:
    size: int
    def __init__(self):
        self.state = self.label = None
    def change(self):
        self.state = 1
def reset(owner):
    owner.state = None
"""
VALUE = """
class Value:
    label: str
    size: int
"""
CALLER = """
def run(self, owner, value):
    owner.state = 1
    owner.parts[0].state += 1
    value.size, value.label = 2, "a"
    value.unknown = 3
def run_with_types(owner: Owner | None, value: Value):
    owner.label = "b"
    value.size = 4
"""


def test_foreign_writes_are_found() -> None:
    trees = {"owner.py": ast.parse(OWNER), "value.py": ast.parse(VALUE), "caller.py": ast.parse(CALLER)}
    assert sorted(foreign_writes(trees)) == [
        "caller.py:3: owner.state",
        "caller.py:4: owner.parts[0].state",
        "caller.py:8: owner.label",
    ]


def foreign_writes(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the assignments to attributes of objects whose class is in another file and owns its state."""
    classes = [one for file, tree in trees.items() for one in defined_classes(file, tree)]
    with_attribute: dict[str, list[DefinedClass]] = {}
    for each in classes:
        for name in each.attributes:
            with_attribute.setdefault(name, []).append(each)
    writes = []
    for file, tree in trees.items():
        types = types_of_parameters(tree)
        for target in ast.walk(tree):
            if not is_written(target) or is_self(target.value):
                continue
            candidates = with_attribute.get(target.attr, [])
            type_name = types.get(id(target.value))
            if type_name is not None:
                candidates = [each for each in candidates if each.name == type_name]
            if candidates and all(each.owns_state and each.file != file for each in candidates):
                writes.append(f"{file}:{target.lineno}: {ast.unparse(target)}")
    return writes


def types_of_parameters(tree: ast.Module) -> dict[int, str]:
    """Return the name of the class of each use of a parameter whose annotation names one class."""
    types: dict[int, str] = {}
    for function in ast.walk(tree):
        if isinstance(function, Function):
            arguments = function.args
            parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            annotated = {each.arg: name for each in parameters if (name := class_name(each.annotation))}
            types.update(
                (id(node), annotated[node.id])
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and node.id in annotated
            )
    return types


def class_name(annotation: ast.expr | None) -> str | None:
    """Return `C` for the annotations `C`, `C[...]` and `C | None`; None for others."""
    match annotation:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return name
        case ast.BinOp(left=ast.Name(id=name), right=ast.Constant(value=None)):
            return name
    return None


def defined_classes(file: str, tree: ast.Module) -> Iterator[DefinedClass]:
    """Yield the classes of a file."""
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef):
            declared = [
                node.target.id
                for node in owner.body
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            ]
            methods = [
                node for node in owner.body if isinstance(node, Function) and node.name not in CONSTRUCTORS
            ]
            yield DefinedClass(
                file,
                owner.name,
                frozenset((*declared, *written_to_self(owner))),
                owns_state=any(written_to_self(method) for method in methods),
            )


def written_to_self(node: ast.AST) -> list[str]:
    """Return the attributes of `self` that the code assigns."""
    return [each.attr for each in ast.walk(node) if is_written(each) and is_self(each.value)]


def is_written(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Return whether `node` is an attribute that is assigned or deleted."""
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
