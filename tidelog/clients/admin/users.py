"""Admin calls about the users of SCRAM (KIP-554)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import field
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none
from tidelog.clients.transport.failures import failure, raise_for
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tidelog.security.scram.credentials import (
    ITERATIONS_MIN,
    ScramMechanism,
    random_text,
    salt_password,
)

DEFAULT_ITERATIONS: Final = ITERATIONS_MIN
"""The iterations of a new credential, as of Kafka's tools."""


class ScramCredentialInfo(NamedTuple):
    """A credential of a user, without secrets."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A credential to create or to replace; the representation hides the password."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = DEFAULT_ITERATIONS


class ScramDeletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


class UserAdmin:
    """The credentials of SCRAM users."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe_user_scram_credentials(
        self, users: Iterable[str] = (), *, timeout_ms: int | None = None
    ) -> dict[str, list[ScramCredentialInfo] | KafkaError]:
        """Return the credentials of `users`; of all users if it is empty."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        names = tuple(UserName(name=user) for user in dict.fromkeys(users))
        response = await self._requests.send_to_controller(
            DescribeUserScramCredentialsRequest(users=names or None),
            DescribeUserScramCredentialsResponse,
            deadline_ms,
        )
        raise_for(response.error_code, "describe SCRAM credentials", response.error_message)
        return {
            result.user: failure(result.error_code, f"user {result.user!r}", result.error_message)
            if result.error_code
            else [
                ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations)
                for info in result.credential_infos
            ]
            for result in response.results
        }

    async def alter_user_scram_credentials(
        self,
        upsertions: Iterable[ScramUpsertion] = (),
        deletions: Iterable[ScramDeletion] = (),
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Create, replace and delete credentials; None for each user whose credentials were changed.

        The cluster gets the salted passwords, never the passwords.
        """
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        # In a thread: salting takes several milliseconds.
        salted = [await asyncio.to_thread(_salted, upsertion) for upsertion in upsertions]
        request = AlterUserScramCredentialsRequest(
            upsertions=tuple(salted),
            deletions=tuple(
                ScramCredentialDeletion(name=deletion.user, mechanism=deletion.mechanism)
                for deletion in deletions
            ),
        )
        response = await self._requests.send_to_controller(
            request, AlterUserScramCredentialsResponse, deadline_ms
        )
        return {
            result.user: error_or_none(result.error_code, f"user {result.user!r}", result.error_message)
            for result in response.results
        }


def _salted(upsertion: ScramUpsertion) -> ScramCredentialUpsertion:
    salt = random_text(SYSTEM_RANDOMNESS).encode()
    mechanism, iterations = upsertion.mechanism, upsertion.iterations
    return ScramCredentialUpsertion(
        name=upsertion.user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salt_password(mechanism, upsertion.password, salt, iterations),
    )
