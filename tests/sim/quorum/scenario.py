"""Runs scenarios: text files that say who does what, and in which state the nodes then are.

Nodes are numbers. A line is one of:

    # why                                a comment
    cluster 3 voters 1 observer static   first; or `dynamic`: voters stand in the log; `... snapshot every 5`
    start all / start 0 1
    elect 0                              nobody else's requests for votes arrive until node 0 leads
    for 5 s                              let time pass
    cut 0 from 1 2 / mute 0 to 1 2       both directions, one direction
    heal                                 all of them
    forget 0                             the disk, of the same directory id, is empty: what was synced is lost
    until 0 halts                        the process ends by itself, for it lacks trust in the leader
    crash 0 / power off 0 / wipe 0 / pause 0 / resume 0 / resign 0
    append 3 at 0                        three batches of one record
    add 3 at 0 / remove 2 at 0           an operator asks node 0 to change the voters ...
    upgrade at 0                         an operator has node 0 write the static voters to the log
    answered NONE                        ... the answer to the oldest request; `nothing`: there is none yet
    ask 1 for a vote for 0 in epoch 7 with log 4 of epoch 2   or `a pre-vote`, `for 0 with another disk` ...
    answered granted / answered refused                       ... a request that nobody sent
    until 0 LEADER epoch 2               let time pass until the node is in that state
    > 0 LEADER epoch 2                   now it is; what is not said is not looked at; `all` for every node

After the number stand, in any order: a state (LEADER ...), `epoch 2`, `of 1` (its leader, or `none`),
`log 0-4-5` (start, high watermark, end), `voters 0,1,2`, `stopped`. Time is virtual, latency is 1 ms, and a
disk takes 1 ms at most.
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
    """One text, run line by line."""

    def __init__(self, text: str, disabled: frozenset[Safeguard] = frozenset()) -> None:
        self.lines = text.splitlines()
        self.disabled = disabled
        self.world: SimulatedCluster
        self.answers: list[ApiMessage] = []
        self.records = 0

    def run(self) -> None:
        """All lines; AssertionError names the line that does not hold."""
        for number, line in enumerate(self.lines, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            try:
                self._do(line)
            except Exception as error:
                raise AssertionError(f"line {number}: {line}\n{error!r}\n{self._everybody()}") from error

    def _do(self, line: str) -> None:
        for pattern, action in _VERBS:
            found = re.fullmatch(pattern, line)
            if found is not None:
                action(self, *found.groups())
                return
        raise ValueError("this line is not understood")

    def _everybody(self) -> str:
        return "\n".join(f"> {node.id} {describe(node)}" for node in self.world.nodes.values())

    def _nodes(self, text: str) -> list[SimNode]:
        if text == "all":
            return list(self.world.nodes.values())
        return [self.world.nodes[int(each)] for each in re.split(r"[ ,]+", text.strip())]

    # Verbs.

    def cluster(self, voters: str, observers: str | None, mode: str, snapshot_records: str | None) -> None:
        swarm = Swarm(
            voters=int(voters),
            observers=int(observers or 0),
            mode=Voters[mode.upper()],
            snapshot_records=int(snapshot_records or 0),
            latency_max=1,
            persist_max=1,
            tick_late_max=1,
        )
        self.world = SimulatedCluster(0, swarm, self.disabled)
        self.world.drop_log_at_snapshots = True
        self.world.client_answers = lambda request, message: self.answers.append(message)

    def start(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            node.start()

    def elect(self, name: str) -> None:
        (chosen,) = self._nodes(name)
        self.world.network.may_stand = chosen.id
        self.until(f"{name} LEADER")
        self.world.network.may_stand = None

    def wait(self, seconds: str) -> None:
        self.world.run_until(self.world.now + round(float(seconds) * 1000))

    def cut(self, some: str, others: str) -> None:
        self.mute(some, others)
        self.mute(others, some)

    def mute(self, some: str, others: str) -> None:
        for a in self._nodes(some):
            self.world.network.cut |= {(a.id, b.id) for b in self._nodes(others)}

    def heal(self) -> None:
        self.world.network.cut.clear()

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
            node.disk = self.world.new_disk(node.id)
            node.disk.is_replacement = True

    def upgrade(self, name: str) -> None:
        (node,) = self._nodes(name)
        assert node.quorum is not None
        node.handle(UpgradeVoters(node.quorum.epoch, []))

    def forget(self, nodes: str) -> None:
        for node in self._nodes(nodes):
            empty = self.world.new_disk(node.id)
            del self.world.disks[node.id, empty.directory_id]
            empty.directory_id = node.disk.directory_id
            node.disk = self.world.disks[node.id, empty.directory_id] = empty
        # The quorum promises nothing when disks lie, but nobody may drop what it knows to be committed.
        self.world.invariants = [committed_entries_are_not_truncated]

    def halts(self, name: str) -> None:
        (node,) = self._nodes(name)
        try:
            self.world.run_until(self.world.now + WAIT_MAX_MS)
        except CommittedRecordsLost:
            node.stop(power_lost=False)
        else:
            raise AssertionError(f"node {node.id} goes on")

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
        """The voter as the asked node knows it, whatever disk the node has now."""
        (asked,) = self._nodes(at)
        assert asked.quorum is not None
        key = asked.quorum.voters.by_id[int(name)].key
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.wire_directory_id
        )
        self._request(at, request)

    def ask_for_vote(
        self, at: str, pre: str, candidate: str, disk: str | None, epoch: str, offset: str, last_epoch: str
    ) -> None:
        (asked,) = self._nodes(at)
        (node,) = self._nodes(candidate)
        directory = self.world.new_disk(node.id).directory_id if disk else node.disk.directory_id
        partition = RequestPartitionData(
            replica_epoch=int(epoch),
            replica_id=node.id,
            replica_directory_id=directory,
            voter_directory_id=asked.disk.directory_id,
            last_offset_epoch=int(last_epoch),
            last_offset=int(offset),
            pre_vote=bool(pre),
        )
        topic = RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        self._request(at, VoteRequest(cluster_id=CLUSTER_ID, voter_id=asked.id, topics=(topic,)))

    def _request(self, at: str, request: ApiMessage) -> None:
        (node,) = self._nodes(at)
        source = Request(CLIENT, 0, 0, node.id, request)
        node.handle(RequestReceived(source, request))

    def answered(self, expected: str) -> None:
        if expected == "nothing":
            assert not self.answers, self.answers
            return
        self.world.run_until(self.world.now + WAIT_MAX_MS, lambda: bool(self.answers))
        assert self.answers, "no answer"
        answer = self.answers.pop(0)
        if isinstance(answer, VoteResponse):
            granted = answer.topics[0].partitions[0].vote_granted
            assert granted == (expected == "granted"), answer
        else:
            assert ErrorCode(answer.error_code).name == expected, answer  # type: ignore[attr-defined]

    def until(self, expected: str) -> None:
        assert self.world.run_until(self.world.now + WAIT_MAX_MS, lambda: self._mismatch(expected) is None), (
            self._mismatch(expected)
        )

    def expect(self, expected: str) -> None:
        mismatch = self._mismatch(expected)
        assert mismatch is None, mismatch

    def _mismatch(self, expected: str) -> str | None:
        """What is not as the text says; None when everything is."""
        name, _, rest = expected.partition(" ")
        for node in self._nodes(name):
            now = describe(node)
            for field in re.findall(r"(?:epoch|of|log|voters) \S+|\S+", rest):
                if f" {field} " not in f" {now} ":
                    return f"{field!r} is not in: {node.id} {now}"
        return None


def describe(node: SimNode) -> str:
    """The state of a node as scenarios write it."""
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


_VERBS: tuple[tuple[str, Callable[..., Any]], ...] = (
    (
        r"cluster (\d) voters?(?: (\d) observers?)? (static|dynamic)(?: snapshot every (\d+))?",
        Scenario.cluster,
    ),
    (r"start (.+)", Scenario.start),
    (r"elect (\d)", Scenario.elect),
    (r"for ([\d.]+) s", Scenario.wait),
    (r"cut (.+) from (.+)", Scenario.cut),
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
        Scenario.ask_for_vote,
    ),
    (r"answered (\w+)", Scenario.answered),
    (r"until (\d) halts", Scenario.halts),
    (r"until (.+)", Scenario.until),
    (r"> (.+)", Scenario.expect),
)
