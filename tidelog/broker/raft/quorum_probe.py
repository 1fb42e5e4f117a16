"""Connects to the voters of the metadata quorum to learn which of them run now.

The connections of `peers` do not show that: a follower does not contact other voters that it does not need.

I/O: each probe opens one connection to each other voter, and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.cluster.quorum.voter_set import Voter, VoterSet, preferred_endpoint
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId


class QuorumProbe:
    """Probes the voters that `voters` returns; the node itself, `node_id`, counts as reached."""

    def __init__(
        self,
        node_id: BrokerId,
        environment: Environment,
        settings: ConnectionSettings,
        voters: Callable[[], VoterSet],
        listener_names: Sequence[str],
    ) -> None:
        """Create it; `listener_names` are the listeners for controllers in the order of preference."""
        self._node_id = node_id
        self._environment = environment
        self._settings = settings
        self._voters = voters
        self._listener_names = tuple(listener_names)

    async def reaches_majority(self) -> bool:
        """Return whether a majority of the voters can be connected now; True if the voters are unknown.

        It takes as long as the slowest connection, at most the timeout of the connection's setup.
        """
        voters = self._voters()
        others = [voter for voter in voters if voter.id != self._node_id]
        reached = sum(await asyncio.gather(*map(self._reaches, others))) + len(voters) - len(others)
        return reached >= voters.majority or not others

    async def _reaches(self, voter: Voter) -> bool:
        endpoint = preferred_endpoint(voter.endpoints, self._listener_names)
        if endpoint is None:
            return False
        address = BrokerAddress(voter.id, endpoint.host, endpoint.port)
        try:
            connection = await open_connection(self._environment, self._settings, address)
        except OSError:  # TimeoutError, too
            return False
        except KafkaError:
            return True  # it has responded, or was stopped by its own limits
        connection.close()
        return True
