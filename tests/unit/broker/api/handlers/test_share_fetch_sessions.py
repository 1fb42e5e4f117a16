"""Share sessions: their epochs and partitions, and the records of members whose session ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.share_groups.broker import ShareBroker
from tests.support.share_groups.results import ranges, values
from tidelog.broker.api.handlers.share_fetch import LIMIT_ERROR_WAIT_MS_MAX
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.share_partitions.registry import SharePartitions
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.share_fetch import ForgottenTopic
from tidelog.protocol.steps import Steps


async def test_sessions_check_their_epochs() -> None:
    broker = ShareBroker()
    unknown = await broker.response(broker.send(1))
    assert unknown.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    broker.produce("a")
    await broker.fetch(0)
    wrong = await broker.response(broker.send(7))
    assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    acknowledging = await broker.response(broker.send(0, acknowledged=[(0, 0, [1])]))
    assert acknowledging.error_code == ErrorCode.INVALID_REQUEST


async def test_the_partitions_of_a_session_change() -> None:
    broker = ShareBroker()
    first = broker.send(0)
    broker.pass_ms(500)
    await broker.response(first)
    broker.produce("x", index=1)
    added = await broker.response(broker.send(1, indexes=(1,)))
    assert {each.partition_index for each in added.responses[0].partitions} >= {1}
    broker.produce("a", index=0)
    forgotten = (ForgottenTopic(topic_id=broker.topic_id, partitions=(0,)),)
    request = broker.send(2, indexes=(), forgotten_topics_data=forgotten)
    await loop_iterations()
    assert not request.responses, "partition 0 is forgotten, and partition 1 has no more records"


async def test_the_last_request_of_a_session_releases_the_records() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0, member="m")
    request = broker.send(-1, acknowledged=[(0, 0, [1])])
    await broker.response(request)
    await loop_iterations()
    result = await broker.fetch(0, member="n")
    assert ranges(result) == [(1, 1, 1)], "the delivery to a member that left does not count"
    assert len(broker.sessions.sessions) == 1


class Failing:
    """Acknowledges nothing: the steps wait once, and then raise an error."""

    def acknowledge(self, *arguments: object) -> Steps[None]:
        yield None
        raise ArithmeticError("the test lets the acknowledgement fail")


async def test_the_session_ends_and_the_records_are_released_if_its_last_request_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0, member="m")
    with monkeypatch.context() as patch:
        patch.setattr(SharePartitions, "acknowledge", Failing().acknowledge)
        response = await broker.response(broker.send(-1, member="m", acknowledged=[(0, 0, [1])]))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not len(broker.sessions.sessions)
    await loop_iterations()
    assert ranges(await broker.fetch(0, member="n")) == [(0, 0, 1)]


async def test_the_session_ends_if_the_connection_of_its_last_request_ends_while_it_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0, member="m")
    monkeypatch.setattr(SharePartitions, "acknowledge", Failing().acknowledge)
    steps = broker.acknowledge_steps(-1, (0, 0, [1]), member="m")
    # One step finds the partition of the request, then the acknowledgement waits.
    next(steps)
    next(steps)
    assert len(broker.sessions.sessions) == 1
    steps.close()
    assert not len(broker.sessions.sessions)


async def test_records_of_a_forgotten_partition_can_be_acknowledged_and_are_released_with_the_session() -> (
    None
):
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0, member="m")
    forgotten = (ForgottenTopic(topic_id=broker.topic_id, partitions=(0,)),)
    removal = broker.send(1, indexes=(1,), forgotten_topics_data=forgotten)
    broker.produce("x", index=1)
    await broker.response(removal)
    assert (await broker.acknowledge(2, (0, 0, [1]))).error_code == 0
    await broker.response(broker.send(-1, indexes=()))
    result = await broker.fetch(0, member="n")
    assert ranges(result) == [(1, 1, 1)]


async def test_records_acquired_while_the_connection_ends_are_released() -> None:
    broker = ShareBroker()
    client = ConnectedClient()
    broker.persister.may_write.clear()
    broker.produce("a", "b")
    await broker.fetch(0, member="m", client=client)
    # The response of the second fetch waits for its acknowledgement.
    broker.produce("c")
    last = broker.send(1, member="m", client=client, acknowledged=[(0, 0, [1])])
    client.on_disconnected()
    broker.persister.may_write.set()
    await broker.response(last)
    await loop_iterations()
    result = await broker.fetch(0, member="n")
    assert ranges(result) == [(1, 1, 1), (2, 2, 1)]


async def test_records_are_released_when_the_connection_of_the_member_ends() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, member="m", client=client)
    request = broker.send(0, member="n")
    await loop_iterations()
    client.on_disconnected()
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["a"]
    assert broker.sessions.disconnected_count == 1


async def test_a_connection_that_opens_many_sessions_keeps_one_callback_for_its_end() -> None:
    class CountingClient(ConnectedClient):
        callback_count = 0

        def when_disconnected(self, callback: Callable[[], None]) -> None:
            self.callback_count += 1
            super().when_disconnected(callback)

    broker, client = ShareBroker(), CountingClient()
    for _ in range(3):
        broker.produce("a")
        await broker.fetch(0, client=client)
        await broker.response(broker.send(-1, client=client, indexes=()))
        broker.produce("b")
        await broker.fetch(0, client=client)
    assert client.callback_count == 1
    client.on_disconnected()
    assert len(broker.sessions.sessions) == 0 and broker.sessions.disconnected_count == 1


async def test_share_partitions_of_a_group_without_members_are_dropped() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, client=client)
    assert len(broker.partitions) == 1
    client.on_disconnected()
    await loop_iterations()
    assert len(broker.partitions) == 0


async def test_records_of_a_group_whose_last_connection_ends_are_delivered_to_its_next_member() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, client=client)
    client.on_disconnected()
    await loop_iterations()
    assert [write.start_offset for write in broker.persister.writes] == [0]
    assert values(await broker.fetch(0, member="n")) == ["a"]


async def test_offsets_that_are_reset_after_the_last_session_has_ended_are_used_by_the_next_one() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0)
    await broker.acknowledge(-1, (0, 0, [1]))
    await loop_iterations()
    assert len(broker.partitions) == 0
    (state,) = broker.persister.stored.values()
    state.start_offset = 0
    state.states.clear()
    assert values(await broker.fetch(0, member="n")) == ["a"]


async def test_a_share_partition_is_kept_if_a_member_fetches_it_before_its_changes_are_stored() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, client=client)
    broker.persister.may_write.clear()
    client.on_disconnected()
    request = broker.send(0, member="n")
    await loop_iterations()
    broker.persister.may_write.set()
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["a"]
    assert len(broker.partitions) == 1


async def test_a_client_without_room_for_a_session_gets_the_error_after_the_longest_wait() -> None:
    broker = ShareBroker()
    for number in range(4):
        broker.send(0, member=f"m{number}")
    request = broker.send(0, member="too-many", max_wait_ms=500)
    await loop_iterations()
    assert not request.responses
    broker.pass_ms(500)
    response = await broker.response(request)
    assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


async def test_a_session_that_a_member_opens_before_the_last_one_has_ended_is_kept() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0, max_records=1)
    broker.persister.may_write.clear()
    last_fetch = broker.send(-1, acknowledged=[(0, 0, [1])])
    await loop_iterations()
    next_fetch = broker.send(0)
    await loop_iterations()
    broker.persister.may_write.set()
    assert not (await broker.response(last_fetch)).error_code
    response = await broker.response(next_fetch)
    assert not response.error_code
    result = response.responses[0].partitions[0]
    assert ranges(result) == [(1, 1, 1)], "the records of the session that was ending are released"
    broker.produce("c")
    assert values(await broker.fetch(1)) == ["c"]


async def test_the_wait_before_the_error_of_too_many_sessions_is_bounded() -> None:
    broker = ShareBroker()
    for number in range(4):
        broker.send(0, member=f"m{number}")
    request = broker.send(0, member="too-many", max_wait_ms=2**31 - 1)
    await loop_iterations()
    broker.pass_ms(LIMIT_ERROR_WAIT_MS_MAX)
    response = await broker.response(request)
    assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
