"""`tidelog acl`: access control entries, with the options of kafka-acls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from inspect import Parameter
from typing import Annotated, Any, Final

import typer

from tidelog.cli.admin import fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import EXIT_FAILURE, UsageFailure
from tidelog.cli.option_groups import with_options
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.cli.security.acl_entries import (
    EntryOptions,
    operation_name,
    parse_operation,
    parse_principal,
    type_name,
)
from tidelog.clients.admin.admin import AclBinding, AclFilter, Admin, PatternType

app = typer.Typer(
    help="List, add and remove access control entries.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class PatternKind(StrEnum):
    """How the name of a resource is compared; match and any are filters."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


Principals = Annotated[
    list[str],
    typer.Option("--principal", metavar="PRINCIPAL", help="Only entries of this principal; may be repeated."),
]


def _texts(flag: str, metavar: str, text: str) -> Parameter:
    annotation = Annotated[list[str], typer.Option(flag, metavar=metavar, help=text)]
    return Parameter(_parameter(flag), Parameter.KEYWORD_ONLY, default=[], annotation=annotation)


def _switch(flag: str, text: str) -> Parameter:
    annotation = Annotated[bool, typer.Option(flag, help=text)]
    return Parameter(_parameter(flag), Parameter.KEYWORD_ONLY, default=False, annotation=annotation)


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


_RESOURCE_OPTIONS: Final = (
    _texts("--topic", "TOPIC", "A topic; * means all. May be repeated, as the options below."),
    _texts("--group", "GROUP", "A group."),
    _switch("--cluster", "The cluster."),
    _texts("--transactional-id", "ID", "A transactional id."),
    _texts("--delegation-token", "ID", "A delegation token."),
    _texts("--user-principal", "PRINCIPAL", "A user, for CreateTokens and DescribeTokens."),
    Parameter(
        "resource_pattern_type",
        Parameter.KEYWORD_ONLY,
        default=PatternKind.LITERAL,
        annotation=Annotated[
            PatternKind,
            typer.Option(
                "--resource-pattern-type",
                metavar="TYPE",
                help="literal or prefixed; to list and remove also match or any.",
            ),
        ],
    ),
)
_ENTRY_OPTIONS: Final = (
    *_RESOURCE_OPTIONS,
    _texts("--allow-principal", "PRINCIPAL", "A principal that is allowed, such as User:alice."),
    _texts("--deny-principal", "PRINCIPAL", "A principal that is denied; a denial has precedence."),
    _texts("--allow-host", "ADDRESS", "The address of allowed principals; default: all."),
    _texts("--deny-host", "ADDRESS", "The address of denied principals; default: all."),
    _texts("--operation", "OPERATION", "Read, Write, Create, Describe and so on; default: All."),
    _switch("--producer", "Write, Describe and Create on topics, Write and Describe on transactional ids."),
    _switch("--consumer", "Read and Describe on topics, Read on groups."),
    _switch("--idempotent", "With --producer, also IdempotentWrite on the cluster."),
)


def _entry_options(
    *,
    allow_principal: Sequence[str] = (),
    deny_principal: Sequence[str] = (),
    allow_host: Sequence[str] = (),
    deny_host: Sequence[str] = (),
    operation: Sequence[str] = (),
    **others: Any,
) -> EntryOptions:
    return EntryOptions(
        topics=others["topic"],
        groups=others["group"],
        is_cluster=others["cluster"],
        transactional_ids=others["transactional_id"],
        delegation_tokens=others["delegation_token"],
        user_principals=others["user_principal"],
        pattern_type=PatternType[others["resource_pattern_type"].name],
        allow_principals=[parse_principal("--allow-principal", text) for text in allow_principal],
        deny_principals=[parse_principal("--deny-principal", text) for text in deny_principal],
        allow_hosts=[text.strip() for text in allow_host],
        deny_hosts=[text.strip() for text in deny_host],
        operations=[parse_operation(text) for text in operation],
        is_producer=others.get("producer", False),
        is_consumer=others.get("consumer", False),
        is_idempotent=others.get("idempotent", False),
    )


def selects_resources(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of resources instead of its parameter of type `EntryOptions`."""
    return with_options(command, EntryOptions, _RESOURCE_OPTIONS, _entry_options)


def selects_entries(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of resources and entries instead of its parameter of type `EntryOptions`."""
    return with_options(command, EntryOptions, _ENTRY_OPTIONS, _entry_options)


@app.command("list")
@selects_resources
@connects
def list_entries(
    connection: ClusterConnection,
    entries: EntryOptions,
    principal: Principals = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """List the entries of all resources, or of the given ones."""
    resources = entries.resources()
    filters = [AclFilter(each.resource_type, each.name, pattern_type=each.pattern_type) for each in resources]
    principals = {parse_principal("--principal", text) for text in principal}
    matching = with_admin(connection, lambda admin: _matching(admin, filters or [AclFilter()]))
    _print(
        sorted(binding for binding in matching if not principals or binding.principal in principals), as_json
    )


@app.command()
@selects_entries
@connects
def add(connection: ClusterConnection, entries: EntryOptions, as_json: AsJson = False) -> None:
    """Add entries: one for each combination of resource, principal, host and operation."""
    bindings = entries.bindings()
    bindings_added = succeeded(with_admin(connection, lambda admin: admin.create_acls(bindings)))
    _print(bindings_added, as_json)
    fail_unless_all(len(bindings), len(bindings_added))


@app.command()
@selects_entries
@connects
def remove(
    connection: ClusterConnection,
    entries: EntryOptions,
    force: Annotated[bool, typer.Option("--force", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove entries; without a principal, all entries of the resources."""
    filters = entries.filters()
    if not force:
        _confirm(len(with_admin(connection, lambda admin: _matching(admin, filters))))
    removed = succeeded(with_admin(connection, lambda admin: admin.delete_acls(filters)))
    _print(sorted({binding for bindings in removed.values() for binding in bindings}), as_json)
    fail_unless_all(len(filters), len(removed))


async def _matching(admin: Admin, filters: Iterable[AclFilter]) -> set[AclBinding]:
    """Return the entries that match one of the filters."""
    return {binding for each in filters for binding in await admin.describe_acls(each)}


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise UsageFailure("no terminal to confirm the removal: give --force")
    try:
        is_confirmed = typer.confirm(f"Remove {count} {'entry' if count == 1 else 'entries'}?", err=True)
    except typer.Abort:
        is_confirmed = False
    if not is_confirmed:
        raise typer.Exit(EXIT_FAILURE)


def _print(bindings: Iterable[AclBinding], as_json: bool) -> None:
    if as_json:
        print_json([acl_document(binding) for binding in bindings])
        return
    rows = [
        (
            binding.permission.name.lower(),
            binding.principal,
            operation_name(binding.operation),
            _resource_text(binding),
            binding.host,
        )
        for binding in bindings
    ]
    print_table(("permission", "principal", "operation", "resource", "host"), rows)


def _resource_text(binding: AclBinding) -> str:
    """Return a text such as `topic orders` or `topic prefixed orders-`."""
    pattern = "" if binding.pattern_type is PatternType.LITERAL else f"{binding.pattern_type.name.lower()} "
    return f"{type_name(binding.resource_type)} {pattern}{binding.resource_name}"


def acl_document(binding: AclBinding) -> dict[str, str]:
    """Return the entry for JSON."""
    return {
        "resource_type": type_name(binding.resource_type),
        "resource_name": binding.resource_name,
        "pattern_type": binding.pattern_type.name.lower(),
        "principal": binding.principal,
        "host": binding.host,
        "operation": operation_name(binding.operation),
        "permission": binding.permission.name.lower(),
    }
