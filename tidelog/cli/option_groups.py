"""Options that several commands share, as one parameter of these commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, TypeVar

T = TypeVar("T")


def with_options(
    command: Callable[..., None], kind: type[T], options: Sequence[Parameter], build: Callable[..., T]
) -> Callable[..., None]:
    """Return `command` with `options` instead of its parameter of type `kind`.

    `build` is called with the values of the options and returns the value of the parameter.
    """
    signature = inspect.signature(command, eval_str=True)
    parameter_name = next(
        parameter.name for parameter in signature.parameters.values() if parameter.annotation is kind
    )
    names = [option.name for option in options]

    @wraps(command)
    def run(**values: Any) -> None:
        built = build(**{option: values.pop(option) for option in names})
        command(**{parameter_name: built}, **values)

    parameters: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == parameter_name:
            parameters += options
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    # typer reads the options from these two attributes.
    run.__signature__ = Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
