"""The options of `tidelog console` for the prices of an object store."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Annotated, Final

import typer

from tidelog.cli.console.tier_cost import NO_PRICES, TierPrices
from tidelog.cli.option_groups import with_options

GbMonth = Annotated[
    float,
    typer.Option(
        "--price-gb-month",
        metavar="PRICE",
        min=0,
        help="The price of a GB in the object store for a month: shows what tiered topics cost.",
    ),
]
ThousandRequests = Annotated[
    float,
    typer.Option(
        "--price-1000-requests", metavar="PRICE", min=0, help="The price of 1,000 requests that write."
    ),
]
Currency = Annotated[
    str, typer.Option("--price-currency", metavar="CODE", help="The currency of the prices.")
]
_OPTIONS: Final = tuple(
    Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(NO_PRICES, name), annotation=annotation)
    for name, annotation in (
        ("gb_month", GbMonth),
        ("thousand_requests", ThousandRequests),
        ("currency", Currency),
    )
)


def has_prices(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the prices instead of its parameter of this type."""
    return with_options(command, TierPrices, _OPTIONS, TierPrices)
