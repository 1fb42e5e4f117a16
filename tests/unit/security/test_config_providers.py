"""Variables of configurations, and the files, directories and environments that they name."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.security.config_providers import resolve_variables

CLASSES = "org.apache.kafka.common.config.provider."
FILE = {"config.providers": "file", "config.providers.file.class": f"{CLASSES}FileConfigProvider"}
DIRECTORY = {"config.providers": "d", "config.providers.d.class": f"{CLASSES}DirectoryConfigProvider"}
ENVIRONMENT = {"config.providers": "env", "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider"}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    file = tmp_path / "secrets.properties"
    file.write_text("password = a\\u0062c\nempty=\n")
    return file


def resolve(text: str, provider: dict[str, str], **environment: str) -> str:
    return resolve_variables({**provider, "key": text}, environment)["key"]


def test_variables_are_replaced_by_values_of_a_properties_file(secrets: Path) -> None:
    text = f"<${{file:{secrets}:password}}|${{file:{secrets}:empty}}>"
    assert resolve(text, FILE) == "<abc|>"


def test_variables_are_replaced_by_files_of_a_directory(secrets: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a line\n")
    assert resolve(f"${{d:{tmp_path}:token}}", DIRECTORY) == "a line\n"
    assert resolve(f"${{d:{tmp_path / 'x'}:../token}}", DIRECTORY) == f"${{d:{tmp_path / 'x'}:../token}}"


def test_variables_are_replaced_by_variables_of_the_environment() -> None:
    assert resolve("a-${env:NAME}-b", ENVIRONMENT, NAME="value") == "a-value-b"


def test_a_pattern_limits_the_variables_of_the_environment() -> None:
    limited = {**ENVIRONMENT, "config.providers.env.param.allowlist.pattern": "PUBLIC_.*"}
    assert resolve("${env:PUBLIC_A} ${env:SECRET}", limited, PUBLIC_A="a", SECRET="s") == "a ${env:SECRET}"


def test_values_of_variables_are_not_resolved_again() -> None:
    assert resolve("${env:A}", ENVIRONMENT, A="${env:B}", B="value") == "${env:B}"


def test_a_variable_without_a_value_stays_as_it_is_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert resolve("${env:MISSING}", ENVIRONMENT) == "${env:MISSING}"
    assert [record.getMessage() for record in caplog.records] == [
        "Config key contains ${env:MISSING}, which has no value; using this text"
    ]


def test_texts_that_look_like_variables_of_other_providers_stay_as_they_are() -> None:
    assert resolve("${other:a:b} ${x} $1", ENVIRONMENT) == "${other:a:b} ${x} $1"
    assert resolve("${env:NAME}", {}, NAME="value") == "${env:NAME}"


@pytest.mark.parametrize("path", ["{0}/../secrets.properties", "{0}-other/x", "/etc/passwd"])
def test_paths_outside_of_the_allowed_ones_are_not_read(path: str, secrets: Path, tmp_path: Path) -> None:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "inside.properties").write_text("password=inside")
    limited = {**FILE, "config.providers.file.param.allowed.paths": str(folder)}
    assert resolve(f"${{file:{folder}/inside.properties:password}}", limited) == "inside"
    text = f"${{file:{path.format(folder)}:password}}"
    assert resolve(text, limited) == text


def test_a_file_that_cannot_be_read_is_reported_with_the_key_and_without_other_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(f"other-secret ${{file:{tmp_path}/missing:password}}", FILE)
    assert str(error.value) == (
        f"Invalid configuration value: key=${{file:{tmp_path}/missing:password}}; "
        "cannot read the file: no regular file"
    )


def test_a_malformed_file_is_reported_without_its_contents(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("password=canary\\uXYZ")
    with pytest.raises(ConfigError) as error:
        resolve(f"${{file:{file}:password}}", FILE)
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class", "com.example.VaultConfigProvider"),
        ("param.allowed.paths", "relative"),
        ("param.allowed.paths", "/does/not/exist"),
    ],
)
def test_an_invalid_provider_is_rejected_with_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve("a", {**FILE, f"config.providers.file.{key}": value})
    assert error.value.key == f"config.providers.file.{key}"


def test_a_variable_of_the_environment_has_no_path() -> None:
    with pytest.raises(ConfigError, match="has no path"):
        resolve("${env:path:NAME}", ENVIRONMENT, NAME="value")


def test_a_node_reads_its_secrets_from_a_file(secrets: Path) -> None:
    lines = [f"{key}={value}" for key, value in FILE.items()]
    lines += ["node.id=1", f"ssl.keystore.password=${{file:{secrets}:password}}"]
    assert BrokerConfig.load("\n".join(lines)).ssl_keystore_password == "abc"


def test_cve_2024_31141_dynamic_configs_are_not_resolved(secrets: Path) -> None:
    config = BrokerConfig.load("\n".join(["node.id=1", *(f"{key}={value}" for key, value in FILE.items())]))
    text = f"${{file:{secrets}:password}}"
    changed = config.with_dynamic({}, {"listener.name.a.ssl.keystore.password": text})
    assert changed.explicit["listener.name.a.ssl.keystore.password"] == text
