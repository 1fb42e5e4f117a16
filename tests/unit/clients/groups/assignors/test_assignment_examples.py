"""The examples of Kafka's documentation for each assignor."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.clients.groups.assignors import ASSIGNORS, Subscription
from tidelog.clients.groups.assignors.cooperative_sticky import ownership_change
from tidelog.clients.groups.assignors.sticky import claim_from_user_data
from tidelog.protocol.ids import TopicPartition


def subscriptions(**topics: str) -> dict[str, Subscription]:
    return {member: Subscription(topics=tuple(names.split())) for member, names in topics.items()}


def parts(text: str) -> list[TopicPartition]:
    return [TopicPartition(part[:2], int(part[3:])) for part in text.split()]


def text_of(assignment: dict[str, list[TopicPartition]]) -> dict[str, str]:
    return {
        member: " ".join(f"{topic}p{index}" for topic, index in sorted(partitions))
        for member, partitions in assignment.items()
    }


def subscription_of(
    assignor: str, topics: str, generation: int, owned: Iterable[TopicPartition]
) -> Subscription:
    held = tuple(owned)
    return Subscription(
        topics=tuple(topics.split()),
        owned_partitions=held if assignor == "cooperative-sticky" else (),
        generation=generation if assignor == "cooperative-sticky" else -1,
        user_data=ASSIGNORS[assignor].user_data(held, generation),
    )


def test_every_assignor_is_found_by_kafkas_name() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert all(assignor.name == name for name, assignor in ASSIGNORS.items())


def test_range_assigns_the_remainder_of_every_topic_to_the_first_members() -> None:
    assert text_of(ASSIGNORS["range"].assign({"t0": 3, "t1": 3}, subscriptions(C0="t0 t1", C1="t0 t1"))) == {
        "C0": "t0p0 t0p1 t1p0 t1p1",
        "C1": "t0p2 t1p2",
    }


def test_range_orders_static_members_by_instance_before_dynamic_ones() -> None:
    members = {
        "a-dynamic": Subscription(topics=("t0",)),
        "y": Subscription(topics=("t0",), group_instance_id="2"),
        "z": Subscription(topics=("t0",), group_instance_id="1"),
    }
    assert text_of(ASSIGNORS["range"].assign({"t0": 4}, members)) == {
        "z": "t0p0 t0p1",
        "y": "t0p2",
        "a-dynamic": "t0p3",
    }


def test_round_robin_assigns_partitions_individually() -> None:
    assert text_of(
        ASSIGNORS["roundrobin"].assign({"t0": 3, "t1": 3}, subscriptions(C0="t0 t1", C1="t0 t1"))
    ) == {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"}


def test_round_robin_skips_members_without_subscription() -> None:
    members = subscriptions(C0="t0", C1="t0 t1", C2="t0 t1 t2")
    assert text_of(ASSIGNORS["roundrobin"].assign({"t0": 1, "t1": 2, "t2": 3}, members)) == {
        "C0": "t0p0",
        "C1": "t1p0",
        "C2": "t1p1 t2p0 t2p1 t2p2",
    }


def test_sticky_balances_unequal_subscriptions() -> None:
    members = subscriptions(C0="t0", C1="t0 t1", C2="t0 t1 t2")
    assert text_of(ASSIGNORS["sticky"].assign({"t0": 1, "t1": 2, "t2": 3}, members)) == {
        "C0": "t0p0",
        "C1": "t1p0 t1p1",
        "C2": "t2p0 t2p1 t2p2",
    }


def test_sticky_moves_only_partitions_of_a_departed_member() -> None:
    cluster = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
    before = {"C0": parts("t0p0 t1p1 t3p0"), "C2": parts("t1p0 t2p1 t3p1")}
    members = {member: subscription_of("sticky", "t0 t1 t2 t3", 1, held) for member, held in before.items()}
    after = ASSIGNORS["sticky"].assign(cluster, members)
    assert all(set(before[member]) <= set(after[member]) for member in before)
    assert [len(partitions) for partitions in after.values()] == [4, 4]


def test_sticky_prefers_the_claim_of_the_later_generation() -> None:
    members = {
        "old": subscription_of("sticky", "t0", 3, parts("t0p0 t0p1")),
        "new": subscription_of("sticky", "t0", 4, parts("t0p0 t0p1")),
        "third": subscription_of("sticky", "t0", 4, parts("t0p2 t0p3")),
    }
    after = ASSIGNORS["sticky"].assign({"t0": 6}, members)
    assert set(parts("t0p0 t0p1")) <= set(after["new"])
    assert set(parts("t0p2 t0p3")) <= set(after["third"])
    assert set(parts("t0p4 t0p5")) == set(after["old"])


def test_sticky_user_data_of_both_versions_is_read_and_invalid_bytes_are_ignored() -> None:
    data = ASSIGNORS["sticky"].user_data(parts("t0p0 t1p2 t0p3"), 7)
    assert data is not None
    assert data == (b"\0\0\0\2\0\2t0\0\0\0\2\0\0\0\0\0\0\0\3\0\2t1\0\0\0\1\0\0\0\2\0\0\0\7")
    claim = claim_from_user_data(data)
    assert (set(claim.partitions), claim.generation) == (set(parts("t0p0 t0p3 t1p2")), 7)
    assert claim_from_user_data(data[:-4]).generation == -1
    assert claim_from_user_data(data[:-4]).partitions == claim.partitions
    assert claim_from_user_data(b"\xff\xff\xff").partitions == ()
    assert ASSIGNORS["sticky"].user_data(None, -1) is None


def test_cooperative_assigns_a_moving_partition_after_its_revocation() -> None:
    name = "cooperative-sticky"
    members = {
        "C0": subscription_of(name, "t0", 1, parts("t0p0 t0p1 t0p2 t0p3")),
        "C1": subscription_of(name, "t0", -1, []),
    }
    first = ASSIGNORS[name].assign({"t0": 4}, members)
    assert text_of(first) == {"C0": "t0p0 t0p1", "C1": ""}
    change = ownership_change(parts("t0p0 t0p1 t0p2 t0p3"), first["C0"])
    assert (change.revoked, change.added, change.must_rejoin) == (tuple(parts("t0p2 t0p3")), (), True)
    members["C0"] = subscription_of(name, "t0", 2, first["C0"])
    members["C1"] = subscription_of(name, "t0", 2, first["C1"])
    assert text_of(ASSIGNORS[name].assign({"t0": 4}, members)) == {"C0": "t0p0 t0p1", "C1": "t0p2 t0p3"}


def test_cooperative_assigns_a_partition_claimed_twice_to_no_member() -> None:
    name = "cooperative-sticky"
    members = {
        "C0": subscription_of(name, "t0", 5, parts("t0p0 t0p1")),
        "C1": subscription_of(name, "t0", 5, parts("t0p1")),
    }
    assert text_of(ASSIGNORS[name].assign({"t0": 2}, members)) == {"C0": "t0p0", "C1": ""}


def test_topics_without_partitions_are_skipped() -> None:
    for assignor in ASSIGNORS.values():
        assert assignor.assign({"t0": 0}, subscriptions(C0="t0 t1")) == {"C0": []}
        assert assignor.assign({}, {}) == {}
