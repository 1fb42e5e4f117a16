"""Runs scenarios of the quorum: text files with actions and the expected states of the nodes.

Nodes are numbers. A line is one of:

    # text                               a comment
    cluster 3 voters 1 observer static   the first line; or `dynamic`: the log has the voters;
                                         optionally `... snapshot every 5`
    start all / start 0 1
    elect 0                              only the vote requests of node 0 are delivered until it is the leader
    for 5 s                              advance the time
    cut 0 from 1 2 / mute 0 to 1 2       drop messages in both directions, in one direction
    heal                                 deliver all messages again
    forget 0                             the disk loses all data, also synced data, and keeps its directory id
    until 0 halts                        advance the time until the process stops because the leader lacks
                                         committed records
    crash 0 / power off 0 / wipe 0 / pause 0 / resume 0 / resign 0
    append 3 at 0                        append three batches of one record
    add 3 at 0 / remove 2 at 0           send node 0 a request of an operator to change the voters
    upgrade at 0                         let node 0 write the static voters to the log
    ask 1 for a vote for 0 in epoch 7 with log 4 of epoch 2
                                         send node 1 a vote request; also `a pre-vote`, or
                                         `for 0 with another disk`
    response NONE                        expect this error code in the oldest response; `nothing`: no response
    response granted / response refused  expect this vote in the oldest response
    until 0 LEADER epoch 2               advance the time until the node is in this state
    > 0 LEADER epoch 2                   expect this state now; `all` is every node

A state has any of these parts, in any order: the name of the state (LEADER ...), `epoch 2`, `of 1` (the
leader, or `none`), `log 0-4-5` (start, high watermark, end), `voters 0,1,2`, `stopped`. Other parts are not
checked. Time is virtual, the latency is 1 ms, and a disk write takes at most 1 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.sim.quorum.cluster import SimulatedCluster
from tests.sim.quorum.identity import CLIENT, CLUSTER_ID, endpoints_of
from tests.sim.quorum.invariants import committed_entries_are_not_truncated
from tests.sim.quorum.network import Request
from tests.sim.quorum.node import SimNode
from tests.sim.quorum.safeguards import Safeguard
from tests.sim.quorum.swarm import Swarm, Voters
from tidelog.cluster.quorum.events import RequestReceived, Resign, UpgradeVoters
from tidelog.cluster.quorum.follower import CommittedRecordsLost
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest, VoteResponse
from tidelog.protocol.schema import ApiMessage

WAIT_MAX_MS = 60_000
CALM = Swarm(latency_max=1, persist_max=1, tick_late_max=1, safety_ms=0)


class Scenario:
    """One scenario; its lines are run in order."""

    def __init__(self, text: str, disabled: frozenset[Safeguard] = frozenset()) -> None:
        self.lines = text.splitlines()
        self.disabled = disabled
        self.cluster: SimulatedCluster
        self.responses: list[ApiMessage] = []
        self.records = 0

    def run(self) -> None:
        """Run all lines. Raises AssertionError with the failed line and the states of all nodes."""
        for number, line in enumerate(self.lines, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            try:
                self._run_line(line)
            except Exception as error:
                raise AssertionError(f"line {number}: {line}\n{error!r}\n{self._all_states()}") from error

    def _run_line(self, line: str) -> None:
        for pattern, action in _ACTIONS:
            match = re.fullmatch(pattern, line)
            if match is not None:
                action(self, *match.groups())
                return
        raise ValueError("no action has this form")

    def _all_states(self) -> str:
        return "\n".join(f"> {node.id} {describe(node)}" for node in self.cluster.nodes.values())

    def _nodes(self, text: str) -> list[SimNode]:
        if text == "all":
            return list(self.cluster.nodes.values())
        return [self.cluster.nodes[int(each)] for each in re.split(r"[ ,]+", text.strip())]

    # Actions

    def create_cluster(
        self, voters: str, observers: str | None, mode: str, snapshot_records: str | None
    ) -> None:
        swarm = Swarm(
            voters=int(voters),
            observers=int(observers or 0),
            mode=Voters[mode.upper()],
            snapshot_records=int(snapshot_records or 0),
            latency_max=1,
            persist_max=1,
            tick_late_max=1,
        )
        self.cluster = SimulatedCluster(0, swarm, self.disabled)
        self.cluster.drop_log_at_snapshots = True
        self.cluster.on_client_response = lambda request, message: self.responses.append(message)

    def start(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.start()

    def elect(self, name: str) -> None:
        (chosen,) = self._nodes(name)
        self.cluster.network.only_candidate = chosen.id
        self.wait_for_state(f"{name} LEADER")
        self.cluster.network.only_candidate = None

    def wait(self, seconds: str) -> None:
        self.cluster.run_until(self.cluster.now + round(float(seconds) * 1000))

    def isolate(self, some: str, others: str) -> None:
        self.mute(some, others)
        self.mute(others, some)

    def mute(self, some: str, others: str) -> None:
        for a in self._nodes(some):
            self.cluster.network.cut_links |= {(a.id, b.id) for b in self._nodes(others)}

    def heal(self) -> None:
        self.cluster.network.cut_links.clear()

    def crash(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.stop(power_lost=False)

    def power_off(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.stop(power_lost=True, worst=True)

    def wipe(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            if node.quorum is not None:
                node.stop(power_lost=True)
            node.disk = self.cluster.new_disk(node.id)
            node.disk.is_replacement = True

    def upgrade(self, name: str) -> None:
        (node,) = self._nodes(name)
        assert node.quorum is not None
        node.handle(UpgradeVoters(node.quorum.epoch, []))

    def forget(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            empty = self.cluster.new_disk(node.id)
            del self.cluster.disks[node.id, empty.directory_id]
            empty.directory_id = node.disk.directory_id
            node.disk = self.cluster.disks[node.id, empty.directory_id] = empty
        # The quorum guarantees nothing after the loss of synced data. Still, no node may truncate entries
        # below its own high watermark.
        self.cluster.invariants = [committed_entries_are_not_truncated]

    def expect_halt(self, name: str) -> None:
        (node,) = self._nodes(name)
        try:
            self.cluster.run_until(self.cluster.now + WAIT_MAX_MS)
        except CommittedRecordsLost:
            node.stop(power_lost=False)
        else:
            raise AssertionError(f"node {node.id} has not stopped after {WAIT_MAX_MS} ms")

    def pause(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.pause()

    def resume(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.resume()

    def resign(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.handle(Resign())

    def append(self, count: str, name: str) -> None:
        (node,) = self._nodes(name)
        for _ in range(int(count)):
            self.records += 1
            node.append([b"record-%d" % self.records])

    def add(self, name: str, at: str) -> None:
        (node,) = self._nodes(name)
        listeners = tuple(
            Listener(name=each.listener_name, host=each.host, port=each.port)
            for each in endpoints_of(node.id)
        )
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=5_000,
            voter_id=node.id,
            voter_directory_id=node.disk.directory_id,
            listeners=listeners,
        )
        self._request(at, request)

    def remove(self, name: str, at: str) -> None:
        """Remove the voter as the node `at` knows it, even if the voter has another disk now."""
        (receiver,) = self._nodes(at)
        assert receiver.quorum is not None
        key = receiver.quorum.voters.by_id[int(name)].key
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.wire_directory_id
        )
        self._request(at, request)

    def request_vote(
        self, at: str, pre: str, candidate: str, disk: str | None, epoch: str, offset: str, last_epoch: str
    ) -> None:
        (receiver,) = self._nodes(at)
        (node,) = self._nodes(candidate)
        directory = self.cluster.new_disk(node.id).directory_id if disk else node.disk.directory_id
        partition = RequestPartitionData(
            replica_epoch=int(epoch),
            replica_id=node.id,
            replica_directory_id=directory,
            voter_directory_id=receiver.disk.directory_id,
            last_offset_epoch=int(last_epoch),
            last_offset=int(offset),
            pre_vote=bool(pre),
        )
        topic = RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        self._request(at, VoteRequest(cluster_id=CLUSTER_ID, voter_id=receiver.id, topics=(topic,)))

    def _request(self, at: str, request: ApiMessage) -> None:
        (node,) = self._nodes(at)
        source = Request(CLIENT, 0, 0, node.id, request)
        node.handle(RequestReceived(source, request))

    def expect_response(self, expected: str) -> None:
        if expected == "nothing":
            assert not self.responses, self.responses
            return
        self.cluster.run_until(self.cluster.now + WAIT_MAX_MS, lambda: bool(self.responses))
        assert self.responses, "no response"
        response = self.responses.pop(0)
        if isinstance(response, VoteResponse):
            granted = response.topics[0].partitions[0].vote_granted
            assert granted == (expected == "granted"), response
        else:
            assert ErrorCode(response.error_code).name == expected, response  # type: ignore[attr-defined]

    def wait_for_state(self, expected: str) -> None:
        assert self.cluster.run_until(
            self.cluster.now + WAIT_MAX_MS, lambda: self._mismatch(expected) is None
        ), self._mismatch(expected)

    def expect(self, expected: str) -> None:
        mismatch = self._mismatch(expected)
        assert mismatch is None, mismatch

    def _mismatch(self, expected: str) -> str | None:
        """Return the first difference from the expected state; None if there is none."""
        name, _, rest = expected.partition(" ")
        for node in self._nodes(name):
            now = describe(node)
            for field in re.findall(r"(?:epoch|of|log|voters) \S+|\S+", rest):
                if f" {field} " not in f" {now} ":
                    return f"{field!r} is not in: {node.id} {now}"
        return None


def describe(node: SimNode) -> str:
    """Return the state of a node in the format of scenarios."""
    log, quorum = node.disk.log, node.quorum
    offsets = f"log {log.start_offset}-{log.high_watermark}-{log.end_offset}"
    if quorum is None:
        return f"stopped {offsets}"
    leader = "none" if quorum.leader_id is None else quorum.leader_id
    voters = ",".join(str(voter.id) for voter in quorum.voters)
    return f"{quorum.state.name} epoch {quorum.epoch} of {leader} {offsets} voters {voters}"


def run_scenario(path: Path, disabled: frozenset[Safeguard] = frozenset()) -> None:
    """Run the scenario in the file at `path`."""
    Scenario(path.read_text(), disabled).run()


_ACTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    (
        r"cluster (\d) voters?(?: (\d) observers?)? (static|dynamic)(?: snapshot every (\d+))?",
        Scenario.create_cluster,
    ),
    (r"start (.+)", Scenario.start),
    (r"elect (\d)", Scenario.elect),
    (r"for ([\d.]+) s", Scenario.wait),
    (r"cut (.+) from (.+)", Scenario.isolate),
    (r"mute (.+) to (.+)", Scenario.mute),
    (r"heal", Scenario.heal),
    (r"crash (.+)", Scenario.crash),
    (r"power off (.+)", Scenario.power_off),
    (r"wipe (.+)", Scenario.wipe),
    (r"upgrade at (\d)", Scenario.upgrade),
    (r"forget (.+)", Scenario.forget),
    (r"pause (.+)", Scenario.pause),
    (r"resume (.+)", Scenario.resume),
    (r"resign (.+)", Scenario.resign),
    (r"append (\d+) at (\d)", Scenario.append),
    (r"add (\d) at (\d)", Scenario.add),
    (r"remove (\d) at (\d)", Scenario.remove),
    (
        r"ask (\d) for a (pre-)?vote for (\d)( with another disk)? in epoch (\d+) "
        r"with log (\d+) of epoch (\d+)",
        Scenario.request_vote,
    ),
    (r"response (\w+)", Scenario.expect_response),
    (r"until (\d) halts", Scenario.expect_halt),
    (r"until (.+)", Scenario.wait_for_state),
    (r"> (.+)", Scenario.expect),
)
