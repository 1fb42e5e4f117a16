"""ListTransactions with patterns that are slow to match (item 18)."""

from __future__ import annotations

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
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


def _match_long_ids(context: AttackContext) -> None:
    client = context.client()
    for number in range(context.size(IDS, 5)):
        name = f"{number:03d}" + "a" * context.size(ID_CHARACTERS, 100)
        producer = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        client.send_request(producer, 4, InitProducerIdResponse)
    context.begin()
    for pattern in PATTERNS:
        request = ListTransactionsRequest(transactional_id_pattern=f"...{pattern}")
        context.repeat(request_frame(request, 2), client)
        if context.has_ended and context.scale == 1:
            break


ATTACKS = (
    Attack(
        name="list-transactions-pattern",
        item="18",
        actions="patterns of 20 to 200 characters over 100 transactional ids of 10,000 characters",
        run=_match_long_ids,
    ),
)
