"""The content of the container image: all imports of the command (docker/smoke.sh runs the image itself)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tidelog.local_cluster.ports import free_ports
from tidelog.security.certificate_authority import Authority
from tidelog.testing.embedded import EmbeddedCluster

AS_IN_THE_IMAGE = """
import sys
for name in ("pyspark", "py4j", "pyarrow", "numpy"):
    sys.modules[name] = None
from tidelog.cli.main import main
main()
"""
"""The image has no packages of the extra `spark`."""


def packages() -> set[str]:
    """Return the top-level packages that are part of the distribution."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    return {name for name in packages if any(fnmatch(name, pattern) for pattern in patterns)}


def test_the_image_holds_every_package_of_the_distribution() -> None:
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    copied = {line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line}
    admitted = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert packages() >= {"tidelog"}
    assert packages() <= copied
    assert packages() <= admitted


@pytest.mark.parametrize("file", ["compose.yaml", "secured.yaml"])
def test_nodes_of_the_compose_files_advertise_each_listener(file: str) -> None:
    """The default of a listener is the id of the container, which no certificate contains."""
    text = (ROOT / "docker" / file).read_text()
    listeners = re.search(r"KAFKA_LISTENERS: (.*)", text)
    assert listeners is not None
    names = re.findall(r"(\w+)://", listeners[1])
    advertised = re.findall(r"KAFKA_ADVERTISED_LISTENERS: (.*)", text)
    assert [re.findall(r"(\w+)://[\w.]+:", each) for each in advertised] == [names] * 3


@pytest.mark.parametrize("file", ["compose.yaml", "secured.yaml"])
def test_no_node_of_the_compose_files_depends_on_another(file: str) -> None:
    """Nodes would stop one after the other, and the last one would wait for a quorum."""
    text = (ROOT / "docker" / file).read_text()
    assert re.findall(r"depends_on: \{node", text) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("topic", "describe", "nowhere"), 1),
        (("spark", "stats", "nowhere"), 1),
        (("tier", "fsck", "--storage", "nonsense"), 2),
        (("log", "dump", "/nowhere"), 2),
    ],
)
def test_a_failing_command_prints_one_line_without_the_packages_of_spark(
    arguments: tuple[str, ...], code: int
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AS_IN_THE_IMAGE, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TIDELOG_BOOTSTRAP": "127.0.0.1:1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


@dataclass(frozen=True)
class HealthCase:
    """A metrics endpoint with TLS, and whether the health check of the image succeeds."""

    client_auth: str
    has_certificate: bool
    code: int


@pytest.mark.parametrize(
    "case",
    [
        HealthCase("none", False, 0),
        HealthCase("required", True, 0),
        HealthCase("required", False, 1),
    ],
    ids=lambda case: f"{case.client_auth}-{case.has_certificate}",
)
def test_the_health_check_uses_tls_and_a_client_certificate(case: HealthCase, tmp_path: Path) -> None:
    authority, (port, *_) = Authority.create(), free_ports(1)
    settings = {
        "metrics.port": str(port),
        "metrics.security.protocol": "SSL",
        "metrics.token.file": str(tmp_path / "token"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("node", ("node1",)).write_pem(tmp_path / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(tmp_path / "ca.pem")),
        "listener.name.metrics.ssl.client.auth": case.client_auth,
    }
    (tmp_path / "token").write_text("a-token-of-the-metrics")
    certificate = authority.issue("health", ()).write_pem(tmp_path / "health.pem")
    with EmbeddedCluster(config=settings):
        check = subprocess.run(
            [sys.executable, str(ROOT / "docker" / "healthy.py")],
            env={
                "KAFKA_METRICS_PORT": str(port),
                "KAFKA_METRICS_SECURITY_PROTOCOL": "SSL",
                **({"TIDELOG_HEALTH_CERTIFICATE": str(certificate)} if case.has_certificate else {}),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert check.returncode == case.code, check.stderr
    assert check.stderr == "" if not case.code else len(check.stderr.splitlines()) == 1
