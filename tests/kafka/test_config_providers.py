"""Variables of configurations have the same values as with Apache Kafka's own config providers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kafka.conftest import JARS
from tidelog.base.config_definition import ConfigError
from tidelog.base.properties import parse_properties
from tidelog.security.config_providers import resolve_variables

PROGRAM = Path(__file__).parent / "ConfigVariables.java"
CLASSES = "org.apache.kafka.common.config.provider."
FILE, DIRECTORY, ENVIRONMENT = (
    f"config.providers=p\nconfig.providers.p.class={CLASSES}{name}ConfigProvider\n"
    for name in ("File", "Directory", "EnvVar")
)
VARIABLES = {"SECRET_A": "a ${p:SECRET_B}", "SECRET_B": "b", "PUBLIC": "public"}
CASES = {
    "values of a file": FILE + "key=${p:FOLDER/secrets:password}\nkey2=<${p:FOLDER/secrets:empty}>\n",
    "several variables in a text": FILE
    + "key=a${p:FOLDER/secrets:password}b${p:FOLDER/secrets:other}c$${p:FOLDER/secrets:password}}\n",
    "a missing key": FILE + "key=${p:FOLDER/secrets:missing}\n",
    "a missing file": FILE + "key=${p:FOLDER/none:password}\n",
    "no path": FILE + "key=${p::password} ${p:password}\n",
    "an allowed path": FILE
    + "config.providers.p.param.allowed.paths=FOLDER\nkey=${p:FOLDER/secrets:password}\n",
    "a path that is not allowed": FILE
    + "config.providers.p.param.allowed.paths=FOLDER/inner\nkey=${p:FOLDER/secrets:password}\n",
    "a path that leaves the allowed one": FILE
    + "config.providers.p.param.allowed.paths=FOLDER/inner\nkey=${p:FOLDER/inner/../secrets:password}\n",
    "an allowed path that does not exist": FILE
    + "config.providers.p.param.allowed.paths=/does/not/exist\nkey=a\n",
    "a relative allowed path": FILE + "config.providers.p.param.allowed.paths=relative\nkey=a\n",
    "a file of a directory": DIRECTORY + "key=${p:FOLDER/inner:token}\n",
    "a name that is no file": DIRECTORY
    + "key=${p:FOLDER:inner} ${p:FOLDER/inner:../secrets} ${p:FOLDER/x:a}\n",
    "variables of the environment": ENVIRONMENT + "key=${p:SECRET_A} ${p::PUBLIC} ${p:MISSING}\n",
    "a path of a variable of the environment": ENVIRONMENT + "key=${p:path:PUBLIC}\n",
    "a pattern for the environment": ENVIRONMENT
    + "config.providers.p.param.allowlist.pattern=PUB.*\nkey=${p:SECRET_B} ${p:PUBLIC}\n",
    "an invalid pattern": ENVIRONMENT + "config.providers.p.param.allowlist.pattern=(\nkey=a\n",
    "another provider": ENVIRONMENT + "key=${q:PUBLIC} ${PUBLIC} ${} ${:} ${p:} ${p:PUBLIC\n",
    "no class": "config.providers=p\nkey=${p:PUBLIC}\n",
    "an unknown class": "config.providers=p\nconfig.providers.p.class=example.Provider\nkey=a\n",
    "no providers": "key=${p:PUBLIC}\n",
}


def by_kafka(files: list[Path]) -> list[str]:
    command = ["java", "-cp", f"{JARS}/*", str(PROGRAM), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("{", "rejected"))]


def by_tidelog(file: Path) -> str:
    try:
        resolved = resolve_variables(parse_properties(file.read_text()), VARIABLES)
    except ConfigError:
        return "rejected"
    pairs = (f"{key}={text}" for key, text in sorted(resolved.items()) if key.startswith("key"))
    return "{" + ", ".join(pairs).replace("\n", "\\n") + "}"


def test_variables_have_the_values_of_apache_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in VARIABLES.items():
        monkeypatch.setenv(name, text)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "token").write_text("a line\n")
    (tmp_path / "secrets").write_text("password=p=w\\u0041\nempty=\nother:  o \n")
    files = []
    for number, text in enumerate(CASES.values()):
        file = tmp_path / f"{number}.properties"
        file.write_text(text.replace("FOLDER", str(tmp_path)))
        files.append(file)
    assert dict(zip(CASES, map(by_tidelog, files), strict=True)) == dict(
        zip(CASES, by_kafka(files), strict=True)
    )
