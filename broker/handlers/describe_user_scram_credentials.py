"""DescribeUserScramCredentials (key 50), version 0: which credentials users have (KIP-554)."""

from __future__ import annotations

from collections.abc import Callable

from broker.request_context import RequestContext
from cluster.image import MetadataImage
from cluster.scram import describe_credentials
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


class DescribeUserScramCredentialsHandler:
    """Answers from the image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """Mechanisms and iterations of the users that are named, or of all; each has an outcome."""
        users = [user.name for user in request.users or ()]
        return DescribeUserScramCredentialsResponse(
            error_message=None,
            results=tuple(
                DescribeUserScramCredentialsResult(
                    user=found.user,
                    error_code=found.code,
                    error_message=found.text,
                    credential_infos=tuple(
                        CredentialInfo(mechanism=each.mechanism, iterations=each.iterations)
                        for each in found.credentials
                    ),
                )
                for found in describe_credentials(self._image(), users)
            ),
        )
