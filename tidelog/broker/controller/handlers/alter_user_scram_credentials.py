"""AlterUserScramCredentials (key 51), version 0: SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.controller.result import Outcome
from tidelog.cluster.controller.scram import alter_scram_credentials
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from tidelog.protocol.steps import map_items


class AlterUserScramCredentialsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, slices: Slices) -> None:
        self._store = store
        self._slices = slices

    async def handle(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        """Return the outcome of each user when the credentials are durable."""
        outcomes = await self._store.submit(lambda image: alter_scram_credentials(image, request))
        results = await self._slices.complete(map_items(_result, outcomes.items()))
        return AlterUserScramCredentialsResponse(results=results)


def _result(outcome_of_user: tuple[str, Outcome]) -> AlterUserScramCredentialsResult:
    user, outcome = outcome_of_user
    return AlterUserScramCredentialsResult(user=user, error_code=outcome.code, error_message=outcome.text)
