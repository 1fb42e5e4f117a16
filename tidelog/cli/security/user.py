"""`tidelog user`: the users of SCRAM, whose credentials are in the metadata."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.admin import fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_result, print_table
from tidelog.cli.security.passwords import PasswordFile, read_password
from tidelog.clients.admin.admin import Admin, ScramCredentialInfo, ScramDeletion, ScramUpsertion
from tidelog.clients.admin.users import DEFAULT_ITERATIONS
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.security.scram.credentials import SCRAM_MECHANISMS, ScramMechanism

app = typer.Typer(
    help="List, create, alter and delete users of SCRAM.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Mechanism(StrEnum):
    """The name of a SCRAM mechanism."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


User = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.")]
MechanismOption = Annotated[
    Mechanism, typer.Option("-m", "--mechanism", metavar="MECHANISM", help="SCRAM-SHA-256 or SCRAM-SHA-512.")
]
Iterations = Annotated[
    int, typer.Option("--iterations", metavar="N", help="How often the password is hashed: 4096 to 16384.")
]


@app.command("list")
@connects
def list_users(
    cluster: ClusterConnection,
    users: Annotated[list[str], typer.Argument(metavar="[USER]...", help="Only these users.")] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """List users and their credentials, without secrets."""
    credentials = succeeded(with_admin(cluster, lambda admin: admin.describe_user_scram_credentials(users)))
    rows = [
        (user, info.mechanism.mechanism_name, info.iterations)
        for user in sorted(credentials)
        for info in credentials[user]
    ]
    if as_json:
        print_json([dict(zip(("user", "mechanism", "iterations"), row, strict=True)) for row in rows])
    else:
        print_table(("user", "mechanism", "iterations"), rows)
    fail_unless_all(len(set(users)), len(credentials))


@app.command()
@connects
def create(
    user: User,
    cluster: ClusterConnection,
    mechanism: MechanismOption = Mechanism.SCRAM_SHA_512,
    iterations: Iterations = DEFAULT_ITERATIONS,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a user with one mechanism.

    `alter` adds further mechanisms.
    """
    _upsert(cluster, _upsertion(user, mechanism, iterations, password_file), creates=True)
    print_result(
        as_json,
        f"created user {user} with {mechanism.value}",
        created=user,
        mechanism=mechanism.value,
    )


@app.command()
@connects
def alter(
    user: User,
    cluster: ClusterConnection,
    mechanism: MechanismOption = Mechanism.SCRAM_SHA_512,
    iterations: Iterations = DEFAULT_ITERATIONS,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Change the password of a user for one mechanism, or add the mechanism.

    Other mechanisms keep their passwords, and open connections continue.
    """
    _upsert(cluster, _upsertion(user, mechanism, iterations, password_file), creates=False)
    print_result(
        as_json,
        f"altered user {user} with {mechanism.value}",
        altered=user,
        mechanism=mechanism.value,
    )


@app.command()
@connects
def delete(
    user: User,
    cluster: ClusterConnection,
    mechanism: Annotated[
        Mechanism | None,
        typer.Option("-m", "--mechanism", metavar="MECHANISM", help="Delete only this mechanism."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Delete a user: the credentials of all mechanisms, or of one.

    Open connections continue; access control entries of the user remain.
    """

    async def work(admin: Admin) -> None:
        infos = await _credentials(admin, user)
        if not infos:
            raise UsageFailure(f"user {user!r} does not exist")
        names = (
            [mechanism.value] if mechanism is not None else [info.mechanism.mechanism_name for info in infos]
        )
        for name in names:
            # One request each: a request may alter a user only once.
            deletion = ScramDeletion(user, SCRAM_MECHANISMS[name])
            _raise_error(await admin.alter_user_scram_credentials(deletions=[deletion]))

    with_admin(cluster, work)
    name = None if mechanism is None else mechanism.value
    text = f"deleted user {user}" + ("" if name is None else f" with {name}")
    print_result(as_json, text, deleted=user, mechanism=name)


def _upsertion(user: str, mechanism: Mechanism, iterations: int, password_file: str | None) -> ScramUpsertion:
    if not user:
        raise UsageFailure("the name of the user is empty")
    return ScramUpsertion(
        user=user,
        password=read_password(password_file, user),
        mechanism=ScramMechanism[mechanism.name],
        iterations=iterations,
    )


def _upsert(cluster: ClusterConnection, upsertion: ScramUpsertion, *, creates: bool) -> None:
    """Write one credential; `creates`: of a new user, else of an existing one. Errors: UsageFailure."""
    user = upsertion.user

    async def work(admin: Admin) -> None:
        exists = bool(await _credentials(admin, user))
        if creates and exists:
            raise UsageFailure(f"user {user!r} exists; `tidelog user alter` changes the password")
        if not creates and not exists:
            raise UsageFailure(f"user {user!r} does not exist; `tidelog user create` creates it")
        _raise_error(await admin.alter_user_scram_credentials([upsertion]))

    with_admin(cluster, work)


async def _credentials(admin: Admin, user: str) -> list[ScramCredentialInfo]:
    """Return the credentials of a user, none if the user does not exist."""
    result = (await admin.describe_user_scram_credentials([user])).get(user, [])
    if not isinstance(result, KafkaError):
        return result
    if result.code is not ErrorCode.RESOURCE_NOT_FOUND:
        raise result
    return []


def _raise_error(results: dict[str, KafkaError | None]) -> None:
    for error in results.values():
        if error is not None:
            raise error
