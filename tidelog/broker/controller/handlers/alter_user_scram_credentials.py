"""AlterUserScramCredentials (key 51), version 0: SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.scram import alter_scram_credentials
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


class AlterUserScramCredentialsHandler:
    """Submits the request to the controller."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def handle(
        self, context: RequestContext, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        """Return the outcome of each user when the credentials are durable."""
        outcomes = await self._store.submit(lambda image: alter_scram_credentials(image, request))
        return AlterUserScramCredentialsResponse(
            results=tuple(
                AlterUserScramCredentialsResult(
                    user=user, error_code=outcome.code, error_message=outcome.text
                )
                for user, outcome in outcomes.items()
            )
        )
