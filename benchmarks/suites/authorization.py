"""Authorization and the administration of access control entries, with 10 and with 10,000 entries."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from benchmarks.figures import Figure, median
from benchmarks.suites.effort import Effort
from tidelog.broker.security.authorization.audit_log import AuditLog
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer
from tidelog.cluster.acls import AclBinding, AclFilter, matching_acls
from tidelog.cluster.controller.acls import create_acls, delete_acls
from tidelog.cluster.controller.result import ControllerResult, Outcome
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import run_steps

COUNTS = (10, 10_000)
CALLS = 1_000


HEADER = RequestHeader(ApiKey.PRODUCE, 9, 1, "benchmark")


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a request."""

    principal: str = "User:client"
    client_address: str = "10.0.0.1"
    header: RequestHeader = HEADER


CLIENT = Client()
RANDOMNESS = random.Random(1)


def authorization(effort: Effort) -> Iterator[Figure]:
    """Measure decisions of the authorizer, and the commands of CreateAcls, DescribeAcls and DeleteAcls."""
    for count in COUNTS:
        for name, call in _calls(count).items():
            yield Figure(
                name=f"{name}, {count:,} entries",
                value=median(effort.rounds, partial(_microseconds, call)),
                unit="us",
            )


def _calls(count: int) -> dict[str, Callable[[int], object]]:
    """Return the measured functions with `count` entries; their argument is the number of the call."""
    image = _image(count)
    authorizer, change, addresses = _authorizer(image), _create(image, count), itertools.count()
    return {
        "decision from the cache": lambda _: _decide(authorizer, CLIENT),
        "decision": lambda _: _decide(authorizer, Client(client_address=f"10.1.0.{next(addresses)}")),
        "CreateAcls of one entry": lambda number: _create(image, number),
        "DescribeAcls of one topic": lambda _: _describe(image, PatternType.ANY),
        "DescribeAcls of one topic, MATCH": lambda _: _describe(image, PatternType.MATCH),
        "DeleteAcls of one topic": lambda _: delete_acls(image, [_filter(PatternType.ANY)]),
        "replay of a change": lambda _: _replay(image, change),
    }


def _microseconds(call: Callable[[int], object]) -> float:
    began = perf_counter()
    for number in range(CALLS):
        call(number)
    return (perf_counter() - began) * 1e6 / CALLS


def _image(count: int) -> MetadataImage:
    result = create_acls(MetadataImage(cluster_id=""), [_binding(n) for n in range(count)], RANDOMNESS)
    return _replay(MetadataImage(cluster_id=""), result)


def _binding(number: int) -> AclBinding:
    return AclBinding(
        AclResourceType.TOPIC,
        f"topic-{number}",
        PatternType.LITERAL,
        "User:client",
        "*",
        AclOperation.WRITE,
        PermissionType.ALLOW,
    )


def _authorizer(image: MetadataImage) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(
        frozenset(), allows_without_entry=False, is_loaded=lambda: True, audit=AuditLog(lambda *_: None, -1)
    )
    entries = image.access_control_entries
    authorizer.update(entries, entries)
    return authorizer


def _decide(authorizer: StandardAuthorizer, client: Client) -> bool:
    return authorizer.is_authorized(client, AclOperation.WRITE, AclResourceType.TOPIC, "topic-7")


def _create(image: MetadataImage, number: int) -> ControllerResult[list[Outcome]]:
    return create_acls(image, [_binding(number)._replace(host="10.0.0.2")], RANDOMNESS)


def _describe(image: MetadataImage, pattern_type: PatternType) -> object:
    return run_steps(matching_acls(image, _filter(pattern_type)))


def _filter(pattern_type: PatternType) -> AclFilter:
    return AclFilter(
        AclResourceType.TOPIC, "topic-7", pattern_type, None, None, AclOperation.ANY, PermissionType.ANY
    )


def _replay(image: MetadataImage, result: ControllerResult[list[Outcome]]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in result.records:
        delta.replay(record)
    return delta.image(1, 1)
