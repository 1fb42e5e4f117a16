"""The settings of components are projections of the configuration, without defaults of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tidelog
from tests.support.configs import group_config
from tidelog.broker.config.projection import projection
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings
from tidelog.cluster.group_configs import GROUP_CONFIGS
from tidelog.remote.metadata.config import CONFIGS as METADATA_MANAGER_CONFIGS
from tidelog.remote.objects.config import CONFIGS as STORAGE_MANAGER_CONFIGS
from tidelog.remote.objects.stores.s3_settings import CONFIGS as S3_CONFIGS
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

PACKAGE = Path(tidelog.__file__).parent
DEFINITIONS = {"clients/config/client_config.py", "clients/config/share_config.py"}
"""The files in which a class of settings defines keys: the options of the clients."""

EXCEPTIONS = {
    # -1 leaves the size of a socket buffer to the operating system.
    "clients/transport/connecting.py:ConnectionSettings.receive_buffer_bytes",
    "clients/transport/connecting.py:ConnectionSettings.send_buffer_bytes",
    # Constants of the quorum in Kafka, too: remote.fetch.max.wait.ms is another value.
    "cluster/quorum/settings.py:QuorumSettings.fetch_max_wait_ms",
    "cluster/quorum/settings.py:QuorumSettings.max_wait_ms",
    # The size of a decoded batch of rows; it is not fetch.max.bytes.
    "spark_connector/arrow/decoder.py:DecoderSettings.max_bytes",
    # A client of a local cluster without security; no key of a node sets these.
    "local_cluster/client_settings.py:ClientSettings.protocol",
    "local_cluster/client_settings.py:ClientSettings.password",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    num_partitions: int
    fetch_max_bytes: int


def test_a_projection_has_the_configured_values() -> None:
    config = BrokerSettings({"node.id": "1", "num.partitions": "7"})
    assert projection(config, Part) == Part(num_partitions=7, fetch_max_bytes=57_671_680)
    assert projection(config, Part, fetch_max_bytes=5).fetch_max_bytes == 5


def test_a_value_without_a_key_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError):
        group_config(no_such_field=1)


def test_settings_of_components_have_no_defaults_for_configuration_keys() -> None:
    tables = (
        BROKER_CONFIGS,
        TOPIC_CONFIGS,
        GROUP_CONFIGS,
        METADATA_MANAGER_CONFIGS,
        STORAGE_MANAGER_CONFIGS,
        S3_CONFIGS,
    )
    keys = {f".{key}" for definitions in tables for key in definitions}
    settings = {
        name for name, field in defaults_of_settings() if any(key.endswith(key_of(field)) for key in keys)
    }
    assert settings == EXCEPTIONS


def key_of(field: str) -> str:
    return "." + field.replace("_", ".")


def defaults_of_settings() -> Iterator[tuple[str, str]]:
    """Return the fields of classes of settings whose default is not empty, with the file and the class."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name in DEFINITIONS or name.startswith("protocol/"):
            continue
        for owner in ast.walk(ast.parse(path.read_text())):
            if isinstance(owner, ast.ClassDef) and owner.name.endswith(("Config", "Settings", "Limits")):
                for node in owner.body:
                    if isinstance(node, ast.AnnAssign) and not is_empty(node.value):
                        assert isinstance(node.target, ast.Name)
                        yield f"{name}:{owner.name}.{node.target.id}", node.target.id


def is_empty(default: ast.expr | None) -> bool:
    """Return whether there is no default, or one that means "not set"."""
    return (
        default is None
        or ast.unparse(default) in ("None", "()", "''")
        or "default_factory" in ast.unparse(default)
    )
