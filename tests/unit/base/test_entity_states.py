"""The bounded table of entities."""

from __future__ import annotations

from tidelog.base.entity_states import EXPIRATION_MS, Entities
from tidelog.broker.quotas.resolution import Client


def test_a_client_that_changes_its_id_with_each_request_takes_bounded_memory() -> None:
    entities: Entities[Client, list[int]] = Entities(entities_max=10)
    regular = entities.use(Client("", "regular"), list, 0)
    for number in range(1_000):
        entities.use(Client("", str(number)), list, number)
        assert entities.use(Client("", "regular"), list, number) is regular, "it was used recently"
        assert len(entities) <= 10


def test_unused_states_expire() -> None:
    entities: Entities[Client, list[int]] = Entities()
    entities.use(Client("", "old"), list, 0)
    entities.use(Client("", "young"), list, 1)
    entities.expire(EXPIRATION_MS)
    assert [client.client_id for client, _ in entities.items()] == ["young"]
    assert entities.get(Client("", "old")) is None
