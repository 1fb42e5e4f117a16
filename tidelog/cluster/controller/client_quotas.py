"""Changes of client quotas.

The changes of one entity are applied together or not at all. If an entity is in a request twice, the second
entry is rejected.

Source: KIP-546; ClientQuotaControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog.cluster.client_quotas import check_value, keys_for
from tidelog.cluster.controller.result import SUCCESS, ControllerResult, Outcome
from tidelog.cluster.image import MetadataImage, QuotaEntity
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, RequestEntryData
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.steps import Steps, release_in_steps


class QuotaOutcome(NamedTuple):
    """The outcome for one entity."""

    entity: Mapping[str, str | None]
    outcome: Outcome


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest, hosts: Collection[str] = ()
) -> Steps[ControllerResult[list[QuotaOutcome]]]:
    """Set and remove quotas; return one outcome for each entity, in the order of the request.

    `hosts`: host names in the request that can be resolved. A `validate_only` request changes nothing.
    """
    records: list[ClientQuotaRecord] = []
    outcomes: list[QuotaOutcome] = []
    indexes: dict[QuotaEntity, int] = {}
    """The index of the outcome of each entity."""
    for entry in request.entries:
        yield None
        entity = {each.entity_type: each.entity_name for each in entry.entity}
        key: QuotaEntity = tuple(sorted(entity.items(), key=lambda item: item[0]))
        try:
            if key in indexes:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity}")
            changes = _changes(image, entity, key, entry, hosts)
            if not request.validate_only:
                records += changes
            outcome = QuotaOutcome(entity, SUCCESS)
        except KafkaError as error:
            outcome = QuotaOutcome(entity, Outcome.of(error))
        if key in indexes:
            outcomes[indexes[key]] = outcome
        else:
            indexes[key] = len(outcomes)
            outcomes.append(outcome)
    entities = list(indexes)
    indexes.clear()
    yield from release_in_steps(entities)
    return ControllerResult(tuple(records), outcomes)


def _changes(
    image: MetadataImage,
    entity: Mapping[str, str | None],
    key: QuotaEntity,
    entry: RequestEntryData,
    hosts: Collection[str],
) -> list[ClientQuotaRecord]:
    """Return the records of one entity; unchanged quotas have none."""
    counts = Counter(op.key for op in entry.ops)
    duplicate_keys = sorted(name for name, count in counts.items() if count > 1)
    if duplicate_keys:
        text = (
            f"Duplicate quota key {', '.join(duplicate_keys)}, not updating quotas of entity {dict(entity)}"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    keys = keys_for(entity, hosts)
    current = image.client_quotas.get(key, {})
    entity_data = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items())
    records = []
    for op in entry.ops:
        if op.remove:
            if op.key in current:
                records.append(ClientQuotaRecord(entity=entity_data, key=op.key, remove=True))
            continue
        check_value(keys, op.key, op.value)
        if current.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=entity_data, key=op.key, value=op.value))
    return records
