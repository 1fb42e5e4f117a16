"""The levels of loggers are described and altered as broker loggers (KIP-412)."""

from __future__ import annotations

from tests.support.loops.both_loops import on_both_loops
from tests.support.messages.request_contexts import over_the_wire, request_context
from tests.support.nodes.config_admin import DELETE, SET, admin
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import incremental_alter_configs
from tidelog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest


@on_both_loops
async def test_the_loggers_of_the_node_are_described_and_altered() -> None:
    async with admin() as node:
        before = node.store.image
        result = node.describe(8, "1")
        levels = {entry.name: entry.value for entry in result.configs}
        assert levels == {
            "root": "INFO",
            "tidelog": "INFO",
            "tidelog.broker": "INFO",
            "tidelog.broker.network": "INFO",
            "tidelog.broker.network.listener": "INFO",
        }
        assert {(entry.config_source, entry.read_only, entry.is_sensitive) for entry in result.configs} == {
            (6, False, False)
        }
        code = await node.change(8, "1", ("tidelog.broker.network", SET, "TRACE"), ("root", SET, "FATAL"))
        assert code is ErrorCode.NONE
        levels = {entry.name: entry.value for entry in node.describe(8, "1").configs}
        assert levels == {
            "root": "FATAL",
            "tidelog": "FATAL",
            "tidelog.broker": "FATAL",
            "tidelog.broker.network": "TRACE",
            "tidelog.broker.network.listener": "TRACE",
        }
        assert await node.change(8, "1", ("tidelog.broker.network", DELETE, None)) is ErrorCode.NONE
        assert node.entry(8, "1", "tidelog.broker.network.listener").value == "FATAL"
        # No record is written: levels of loggers belong to the process.
        assert node.store.image is before


@on_both_loops
async def test_one_invalid_logger_level_refuses_all_changes() -> None:
    async with admin() as node:
        changes = (("tidelog.broker", SET, "DEBUG"), ("not.there", SET, "DEBUG"))
        assert await node.change(8, "1", *changes) is ErrorCode.INVALID_CONFIG
        assert await node.change(8, "1", changes[0], validate_only=True) is ErrorCode.NONE
        assert node.entry(8, "1", "tidelog.broker").value == "INFO"


@on_both_loops
async def test_loggers_and_other_resources_change_in_one_request() -> None:
    async with admin() as node:
        resources = [
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=(incremental_alter_configs.AlterableConfig(name=key, value=value),),
            )
            for kind, name, key, value in (
                (8, "1", "tidelog.broker", "DEBUG"),
                (2, "orders", "retention.ms", "9"),
                (8, "2", "tidelog.broker", "DEBUG"),
                (4, "", "num.io.threads", "9"),
            )
        ]
        codes = await node.change_all(*resources)
        assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert node.entry(8, "1", "tidelog.broker").value == "DEBUG"
        assert node.store.image.topic_configs("orders") == {"retention.ms": "9"}
        assert node.store.image.cluster_configs()["num.io.threads"] == "9"


@on_both_loops
async def test_every_controller_changes_its_own_loggers() -> None:
    async with admin() as node:
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=8,
            resource_name="1",
            configs=(incremental_alter_configs.AlterableConfig(name="tidelog.broker", value="ERROR"),),
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        response = await node.controller.handle(request_context(1), over_the_wire(request, 1))
        assert [each.error_code for each in response.responses] == [0]
        assert node.entry(8, "1", "tidelog.broker").value == "ERROR"
