"""Users of the quorum: a client that appends records, and an operator that changes the voters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.sim.quorum.faults import live_majority, possible_voter_sets
from tests.sim.quorum.identity import CLIENT, CLUSTER_ID
from tests.sim.quorum.network import Request
from tidelog.cluster.quorum.events import RequestReceived, UpgradeVoters
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from tidelog.protocol.messages.update_raft_voter import Listener as UpdatedListener
from tidelog.protocol.schema import ApiMessage

if TYPE_CHECKING:
    from tests.sim.quorum.cluster import SimulatedCluster
    from tests.sim.quorum.node import SimNode


class Appender:
    """Appends numbered records at every node that believes to be leader."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.append_count = 0
        self._schedule()

    def _schedule(self) -> None:
        every = self.cluster.swarm.append_every
        self.cluster.schedule(self.cluster.now + 1 + self.cluster.random.randrange(2 * every), self._append)

    def _append(self) -> None:
        for node in self.cluster.leaders():
            count = self.cluster.random.choice((1, 1, 1, 2, 5))
            node.append([b"record-%d" % (self.append_count + each) for each in range(count)])
            self.append_count += count
        self._schedule()


class Operator:
    """Changes the voter set at random times, sometimes twice at once; a majority always stays possible."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.is_stopped = False
        self.responses: list[int] = []
        cluster.on_client_response = self._on_response
        if cluster.swarm.voter_change_every:
            self._schedule()

    def _schedule(self) -> None:
        every = self.cluster.swarm.voter_change_every
        self.cluster.schedule(
            self.cluster.now + 1 + int(self.cluster.random.expovariate(1 / every)), self._change
        )

    def _change(self) -> None:
        if self.is_stopped:
            return
        self._schedule()
        cluster, random = self.cluster, self.cluster.random
        leaders = [node for node in cluster.leaders() if not node.is_paused]
        if not leaders:
            return
        leader = random.choice(leaders)
        if not cluster.is_dynamic:
            assert leader.quorum is not None
            leader.handle(UpgradeVoters(leader.quorum.epoch, []))
            return
        for _ in range(random.choice((1, 1, 1, 2))):
            assert leader.quorum is not None
            voters = leader.quorum.voters
            ids = list(cluster.nodes)
            node = cluster.nodes[random.choice(ids)]
            voter = voters.by_id.get(node.id)
            if voter is None:
                self._propose(leader, voters.with_voter(cluster.voter(node.disk)), self._add(node))
            elif voter.key.directory_id != node.disk.directory_id or random.random() < 0.6:
                request = RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID, voter_id=node.id, voter_directory_id=voter.key.wire_directory_id
                )
                self._propose(leader, voters.without(node.id), request)
            else:
                self._propose(leader, voters, self._update(leader, node))

    def _propose(self, leader: SimNode, voters: VoterSet, request: ApiMessage) -> None:
        """Request a change if every possible result leaves a majority of live disks."""
        cluster = self.cluster
        if not len(voters) or any(
            not live_majority(cluster, each) for each in (voters, *possible_voter_sets(cluster))
        ):
            return
        cluster.proposed_voter_sets = [*cluster.proposed_voter_sets[-3:], voters]
        source = Request(CLIENT, 0, 0, leader.id, request)
        leader.handle(RequestReceived(source, request))

    def _on_response(self, request: Request, message: Any) -> None:
        self.responses.append(message.error_code)

    def _add(self, node: SimNode) -> ApiMessage:
        return AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=5_000,
            voter_id=node.id,
            voter_directory_id=node.disk.directory_id,
            listeners=tuple(
                Listener(name=each.listener_name, host=each.host, port=each.port)
                for each in self.cluster.voter(node.disk).endpoints
            ),
            ack_when_committed=self.cluster.random.random() < 0.7,
        )

    def _update(self, leader: SimNode, node: SimNode) -> ApiMessage:
        assert leader.quorum is not None
        return UpdateRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            current_leader_epoch=leader.quorum.epoch,
            voter_id=node.id,
            voter_directory_id=node.disk.directory_id,
            listeners=tuple(
                UpdatedListener(name=each.listener_name, host=each.host, port=each.port)
                for each in self.cluster.voter(node.disk).endpoints
            ),
            k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
