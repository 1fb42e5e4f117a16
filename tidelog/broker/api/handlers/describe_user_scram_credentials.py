"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.scram import UserCredentials, describe_credentials
from tidelog.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tidelog.protocol.steps import Steps, map_items


class DescribeUserScramCredentialsHandler:
    """Returns credentials of the image, without their secrets."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> Steps[DescribeUserScramCredentialsResponse]:
        """Return mechanisms and iterations of the requested users, or of all; errors are at each user."""
        users = [user.name for user in request.users or ()]
        users_credentials = yield from describe_credentials(self._image(), users)
        results = yield from map_items(_result, users_credentials)
        return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(credentials: UserCredentials) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=credentials.user,
        error_code=credentials.code,
        error_message=credentials.text,
        credential_infos=tuple(
            CredentialInfo(mechanism=one.mechanism, iterations=one.iterations)
            for one in credentials.credentials
        ),
    )
