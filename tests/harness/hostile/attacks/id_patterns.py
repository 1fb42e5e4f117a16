"""ListTransactions with patterns that are slow to match (item 18)."""

from __future__ import annotations

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.frames import framed
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest

IDS = 100
ID_CHARACTERS = 10_000
PATTERNS = (
    # Each pattern has many ways to match the same characters.
    "(a*)*(a*)*(a*)*(a*)*(a*)*b",
    "(a|a|a|a|a|a|a|a)*b",
    "(" + "a?" * 100 + ")*b",
    "(.*a){10}.*b",
)


def _match_long_ids(scene: Scene) -> None:
    client = scene.client()
    for number in range(scene.size(IDS, 5)):
        name = f"{number:03d}" + "a" * scene.size(ID_CHARACTERS, 100)
        producer = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        client.ask(producer, 4, InitProducerIdResponse)
    scene.begin()
    for pattern in PATTERNS:
        request = ListTransactionsRequest(transactional_id_pattern=f"...{pattern}")
        scene.repeat(framed(request, 2), client)
        if scene.is_over and scene.scale == 1:
            break


ATTACKS = (
    Attack(
        name="list-transactions-pattern",
        item="18",
        does="patterns of 20 to 200 characters over 100 transactional ids of 10,000 characters",
        run=_match_long_ids,
    ),
)
