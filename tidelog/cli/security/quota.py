"""`tidelog quota`: client quotas of users, client ids and addresses, and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Annotated, Final

import typer

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.option_groups import with_options
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.output import print_json, print_result, print_table
from tidelog.clients.admin.admin import Admin, QuotaComponent, QuotaEntity, QuotaMatch

DEFAULT_NAME: Final = "<default>"

app = typer.Typer(
    help="Describe, alter and remove client quotas.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dataclass(frozen=True, slots=True)
class EntityOptions:
    """The names and defaults by entity type that the options select; a name of None is the default."""

    names: Mapping[str, str | None]

    def entity(self) -> QuotaEntity:
        """Return the entity. Errors: UsageFailure if no option was given."""
        if not self.names:
            raise UsageFailure(
                "give an entity: --user, --client-id or --ip, or --user-defaults, --client-id-defaults or "
                "--ip-defaults"
            )
        return tuple((kind, self.names[kind]) for kind in sorted(self.names))

    def filter_components(self) -> list[QuotaComponent]:
        """Return a filter for the entities that have these parts."""
        return [
            QuotaComponent(kind, QuotaMatch.DEFAULT if name is None else QuotaMatch.EXACT, name)
            for kind, name in self.names.items()
        ]


def _entity_options(
    user: str | None,
    user_default: bool,
    client_id: str | None,
    client_id_default: bool,
    ip: str | None,
    ip_default: bool,
) -> EntityOptions:
    names: dict[str, str | None] = {}
    for kind, name, is_default in (
        ("user", user, user_default),
        ("client-id", client_id, client_id_default),
        ("ip", ip, ip_default),
    ):
        if name is not None and is_default:
            raise UsageFailure(f"--{kind} and --{kind}-defaults exclude each other")
        if name is not None or is_default:
            names[kind] = name
    if "ip" in names and len(names) > 1:
        raise UsageFailure("--ip cannot be combined with --user or --client-id")
    return EntityOptions(names)


def _name_option(kind: str, text: str) -> Parameter:
    annotation = Annotated[str | None, typer.Option(f"--{kind}", metavar="NAME", help=f"The {text}.")]
    return Parameter(kind.replace("-", "_"), Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _default_option(kind: str, text: str) -> Parameter:
    help_text = f"The default of every {text} without a quota of its own."
    annotation = Annotated[bool, typer.Option(f"--{kind}-defaults", help=help_text)]
    name = f"{kind.replace('-', '_')}_default"
    return Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=annotation)


_ENTITY_OPTIONS: Final = tuple(
    option(kind, text)
    for kind, text in (("user", "user"), ("client-id", "client id"), ("ip", "address"))
    for option in (_name_option, _default_option)
)


def selects_entity(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of entities instead of its parameter of type `EntityOptions`."""
    return with_options(command, EntityOptions, _ENTITY_OPTIONS, _entity_options)


@app.command()
@connects
@selects_entity
def describe(cluster: ClusterConnection, entity: EntityOptions, as_json: AsJson = False) -> None:
    """Show quotas: of all entities, or of those that have the given parts."""
    quotas_by_entity = with_admin(
        cluster, lambda admin: admin.describe_client_quotas(entity.filter_components())
    )
    quotas = sorted(quotas_by_entity.items(), key=lambda item: [(kind, name or "") for kind, name in item[0]])
    if as_json:
        print_json([{"entity": dict(parts), "quotas": values} for parts, values in quotas])
        return
    rows = [
        (entity_text(parts), key, _number_text(value))
        for parts, values in quotas
        for key, value in sorted(values.items())
    ]
    print_table(("entity", "quota", "value"), rows)


@app.command()
@connects
@selects_entity
def alter(
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; "
            "for addresses connection_creation_rate.",
        ),
    ],
    cluster: ClusterConnection,
    entity: EntityOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check whether the change is valid.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set quotas of a user, a client id, both together, or an address."""
    changes = {key: _number(key, text) for key, text in key_values(settings, "quota").items()}
    _change(cluster, entity.entity(), changes, dry_run)
    name = entity_text(entity.entity())
    print_result(
        as_json,
        f"{'would alter' if dry_run else 'altered'} quotas of {name}",
        altered=name,
        quotas=changes,
        dry_run=dry_run,
    )


@app.command()
@connects
@selects_entity
def remove(
    cluster: ClusterConnection,
    entity: EntityOptions,
    keys: Annotated[list[str], typer.Argument(metavar="[KEY]...", help="Only these quotas.")] = [],  # noqa: B006
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check whether the change is valid.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of a user, a client id, both together, or an address: all, or the given keys."""
    parts = entity.entity()
    changes: dict[str, float | None] = dict.fromkeys(keys or _present_keys(cluster, entity))
    if not changes:
        raise UsageFailure(f"{entity_text(parts)} has no quotas")
    _change(cluster, parts, changes, dry_run)
    print_result(
        as_json,
        f"{'would remove' if dry_run else 'removed'} quotas of {entity_text(parts)}",
        removed=entity_text(parts),
        quotas=list(changes),
        dry_run=dry_run,
    )


def _present_keys(cluster: ClusterConnection, entity: EntityOptions) -> list[str]:
    async def work(admin: Admin) -> list[str]:
        quotas = await admin.describe_client_quotas(entity.filter_components(), strict=True)
        return list(quotas.get(entity.entity(), {}))

    return with_admin(cluster, work)


def _change(
    cluster: ClusterConnection, entity: QuotaEntity, changes: Mapping[str, float | None], dry_run: bool
) -> None:
    async def work(admin: Admin) -> None:
        for error in (await admin.alter_client_quotas({entity: changes}, validate_only=dry_run)).values():
            if error is not None:
                raise error

    with_admin(cluster, work)


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageFailure(f"quota {key}={text}: expected a number") from None


def _number_text(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def entity_text(entity: QuotaEntity) -> str:
    """Return the name of the entity, such as `user alice`."""
    return ", ".join(f"{kind} {DEFAULT_NAME if name is None else name}" for kind, name in entity)
