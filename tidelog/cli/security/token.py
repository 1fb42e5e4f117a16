"""`tidelog token`: creates, renews, expires and describes delegation tokens (KIP-48).

The HMAC of a token, with which clients log in, is printed when the token is created, and described only on
request. Tokens are renewed and expired by their id, so that no secret is in the list of processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_result, print_table, time_text
from tidelog.clients.admin.admin import Admin, DelegationToken
from tidelog.protocol.errors import ErrorCode, KafkaError

app = typer.Typer(
    help="Create, renew, expire and describe delegation tokens.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

_COLUMNS: Final = ("token id", "owner", "requester", "renewers", "issued", "expires", "max time")

TokenId = Annotated[str, typer.Argument(metavar="TOKEN", help="The id of a token.")]


@app.command()
@connects
def create(
    cluster: ClusterConnection,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="User:NAME", help="The owner (default: the client).")
    ] = None,
    renewer: Annotated[
        list[str],
        typer.Option(
            "--renewer", metavar="User:NAME", help="A user that may renew the token; can be repeated."
        ),
    ] = [],  # noqa: B006
    max_lifetime_ms: Annotated[
        int | None,
        typer.Option(
            "--max-lifetime-ms",
            min=1,
            help="The time up to which it can be renewed (default: of the broker).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token; print its id and its HMAC, which is the password."""
    token = with_admin(
        cluster,
        lambda admin: admin.create_delegation_token(
            owner=owner, renewers=renewer, max_lifetime_ms=max_lifetime_ms, timeout_ms=OPERATION_TIMEOUT_MS
        ),
    )
    if as_json:
        print_json(_json(token, shows_hmac=True))
        return
    print(f"token id  {token.token_id}")
    print(f"hmac      {token.password}")
    print(f"owner     {token.owner}")
    print(f"expires   {time_text(token.expiry_timestamp_ms)}")
    print(f"max time  {time_text(token.max_timestamp_ms)}")


@app.command()
@connects
def renew(
    token_id: TokenId,
    cluster: ClusterConnection,
    period_ms: Annotated[
        int | None,
        typer.Option(
            "--period-ms", min=1, help="The time from now until it expires (default: of the broker)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Extend the expiration of a token."""

    def renewal(admin: Admin, hmac: bytes) -> Awaitable[int]:
        return admin.renew_delegation_token(hmac, renew_period_ms=period_ms, timeout_ms=OPERATION_TIMEOUT_MS)

    _change_expiry(cluster, token_id, renewal, as_json)


@app.command()
@connects
def expire(
    token_id: TokenId,
    cluster: ClusterConnection,
    period_ms: Annotated[
        int | None,
        typer.Option("--period-ms", min=0, help="The time from now until it expires (default: at once)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a token expire, by default at once."""

    def expiration(admin: Admin, hmac: bytes) -> Awaitable[int]:
        return admin.expire_delegation_token(
            hmac, expiry_period_ms=period_ms, timeout_ms=OPERATION_TIMEOUT_MS
        )

    _change_expiry(cluster, token_id, expiration, as_json)


@app.command()
@connects
def describe(
    cluster: ClusterConnection,
    owner: Annotated[
        list[str],
        typer.Option(
            "--owner", metavar="User:NAME", help="Only tokens of this owner or renewer; can be repeated."
        ),
    ] = [],  # noqa: B006
    shows_hmac: Annotated[
        bool, typer.Option("--show-hmac", help="Print the HMACs, which are secrets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Describe the tokens that the client may see."""
    tokens = with_admin(cluster, lambda admin: admin.describe_delegation_tokens(owner or None))
    if as_json:
        print_json([_json(token, shows_hmac=shows_hmac) for token in tokens])
        return
    columns = (*_COLUMNS, "hmac") if shows_hmac else _COLUMNS
    print_table(columns, [_row(token)[: len(columns)] for token in tokens])


def _change_expiry(
    cluster: ClusterConnection, token_id: str, change: Callable[[Admin, bytes], Awaitable[int]], as_json: bool
) -> None:
    """Call `change` with the HMAC of a token, and print the expiration that it returns."""

    async def work(admin: Admin) -> int:
        token = await _find(admin, token_id)
        return await change(admin, token.hmac)

    expiry_ms = with_admin(cluster, work)
    print_result(
        as_json,
        f"{token_id} expires {time_text(expiry_ms)}",
        token_id=token_id,
        expiry_timestamp_ms=expiry_ms,
    )


async def _find(admin: Admin, token_id: str) -> DelegationToken:
    for token in await admin.describe_delegation_tokens():
        if token.token_id == token_id:
            return token
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    raise KafkaError(code, f"the client sees no token with the id {token_id!r}")


def _json(token: DelegationToken, *, shows_hmac: bool) -> dict[str, Any]:
    document = {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": token.renewers,
        "issue_timestamp_ms": token.issue_timestamp_ms,
        "expiry_timestamp_ms": token.expiry_timestamp_ms,
        "max_timestamp_ms": token.max_timestamp_ms,
    }
    return {**document, "hmac": token.password} if shows_hmac else document


def _row(token: DelegationToken) -> tuple[object, ...]:
    return (
        token.token_id,
        token.owner,
        token.requester,
        ",".join(token.renewers),
        time_text(token.issue_timestamp_ms),
        time_text(token.expiry_timestamp_ms),
        time_text(token.max_timestamp_ms),
        token.password,
    )
