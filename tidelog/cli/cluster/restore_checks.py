"""Whether a cluster has the metadata that only `tidelog storage format --backup` restores.

Access control entries, quotas, users and default configs of brokers are written when the directories are
formatted. A cluster that was formatted without the backup has none of them, and a restore of its topics alone
would look complete.

Errors: KafkaError if the cluster does not respond.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.clients.admin.admin import Admin, ConfigResource, ResourceType
from tidelog.clients.admin.security import AclBinding
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import ErrorCode, KafkaError


async def missing_metadata(admin: Admin, image: MetadataImage) -> list[str]:
    """Return one line for each kind of metadata in `image` that the cluster lacks, in part or completely."""
    quotas = {frozenset(entity) for entity in await admin.describe_client_quotas()}
    users = await admin.describe_user_scram_credentials()
    credentials = {
        (user, int(info.mechanism))
        for user, infos in users.items()
        if not isinstance(infos, KafkaError)
        for info in infos
    }
    found = [
        _line("quotas", {frozenset(entity) for entity in image.client_quotas} - quotas),
        _line("SCRAM credentials", set(image.scram_credentials) - credentials),
        _line("access control entries", await _missing_entries(admin, image)),
        _line("default configs of brokers", await _missing_configs(admin, image)),
    ]
    return [line for line in found if line]


async def _missing_entries(admin: Admin, image: MetadataImage) -> set[AclBinding]:
    expected = {
        AclBinding(
            AclResourceType(entry.resource_type),
            entry.resource_name,
            entry.principal,
            AclOperation(entry.operation),
            PermissionType(entry.permission_type),
            entry.host,
            PatternType(entry.pattern_type),
        )
        for entry in image.access_control_entries.values()
    }
    if not expected:
        return set()
    try:
        return expected - set(await admin.describe_acls())
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        return set()  # without an authorizer the entries have no effect, and cannot be listed


async def _missing_configs(admin: Admin, image: MetadataImage) -> set[str]:
    expected = set(image.cluster_configs())
    if not expected:
        return set()
    resource = ConfigResource(ResourceType.BROKER, "")
    entries = (await admin.describe_configs([resource]))[resource]
    if isinstance(entries, KafkaError):
        raise entries
    return expected - set(entries)


def _line(kind: str, missing: Collection[object]) -> str:
    return f"the cluster lacks {len(missing)} {kind} of the backup" if missing else ""
