"""The commands of the documents, run in their order, with the output that the documents show.

`PREPARATIONS` has what each document presumes: a cluster, records, groups. The tutorial has its own test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.document_commands import code_blocks, console_steps
from tests.support.document_shell import DocumentShell
from tests.support.groups.streams_application import EAGER_STREAMS, Application
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.local_cluster.security import Security
from tidelog.security.certificate_authority import Authority

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
TUTORIAL: Final = "docs/tutorial.md"
PROGRAM: Final = re.compile(r"(tidelog|make|docker|kubectl|python|pip|kcat|curl|export) ")

NOT_RUN: Final = {
    "README.md": "`make demo` is tests/integration/cli/test_demo.py, and `make test` runs this test",
    "docs/containers.md": "Docker and kubectl: `make test-docker` and `make test-manifests`",
    "docs/performance.md": "benchmarks take minutes to hours: `make bench` and `make bench-kafka`",
    "docs/security.md": "Docker, and the URL of an identity provider: `make test-docker`, test_oauthbearer",
    "docs/spark.md": "pip: `make new-user` installs a checkout",
    "docs/testing.md": "needs the jars of Aiven's plugin: `make bench-kafka`",
    "examples/README.md": "tests/integration/documents/test_examples.py runs the examples",
}
"""Why the blocks `sh` of a document are not run here, and what runs them."""


def operation(shell: DocumentShell) -> None:
    """Write to two partitions, and commit offsets of the group `harbour`."""
    shell.start_cluster().create_topics({"tides": 2})
    shell.run("seq 150 | tidelog produce tides --partition 0; seq 80 | tidelog produce tides --partition 1")
    shell.run("tidelog consume tides -g harbour --from-beginning -n 230")


def migration(shell: DocumentShell) -> None:
    """Run the former and the new cluster."""
    for name in ("kafka-1", "tidelog-1"):
        cluster = shell.start_cluster()
        cluster.create_topics(["tides"])
        shell.addresses[f"{name}:9092"] = cluster.bootstrap_servers
    shell.run(r"printf 'brest\thigh\n' | tidelog produce tides -b kafka-1:9092 -K '\t'")


def share_groups(shell: DocumentShell) -> None:
    """Read three of five records in the group `workers`."""
    shell.start_cluster().create_topics(["jobs"])
    shell.run("seq 5 | tidelog produce jobs")
    shell.run("tidelog config set group workers share.auto.offset.reset=earliest")
    shell.run("tidelog consume jobs --share workers -n 3")


def streams_groups(shell: DocumentShell) -> None:
    """Run an application that reads `lines` until its group has offsets."""
    cluster = shell.start_cluster(config=EAGER_STREAMS)
    cluster.create_topics({"lines": 2})
    shell.run("printf 'a\nb\nc\n' | tidelog produce lines --partition 0")
    application = Application(cluster.bootstrap_servers, "words")
    wait_until(application.has_coordinator)
    application.start()
    application.stop()
    application.close()
    shell.run("tidelog group reset-offsets words --topic lines:0,1 --to-latest --execute")


def security(shell: DocumentShell) -> None:
    """Run a secured cluster with tokens, and write the files for its users; another one without users."""
    identity = Authority.create()
    identity.write(shell.folder / "ca.pem")
    broker = identity.issue("broker")
    tls = shell.start_cluster(
        config={
            "listeners": "SSL://127.0.0.1:0",
            "inter.broker.listener.name": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": broker.key_pem(),
            "ssl.keystore.certificate.chain": broker.chain_pem(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": identity.pem(),
        }
    )
    port = tls.run(lambda node: node.bound_port("SSL"))
    shell.addresses["broker1.example:9093"] = f"127.0.0.1:{port}"
    (shell.folder / "client.properties").write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=ca.pem\n"
    )
    shell.run(
        "tidelog topic create events -p 1 -b broker1.example:9093 --command-config client.properties; "
        "echo high water | tidelog produce events -b broker1.example:9093 --command-config client.properties"
    )
    users = {"admin": "a", "alice": "b", "scheduler": "c"}
    secured = shell.start_cluster(
        security=Security(users=users, super_users=["admin"]),
        config={"delegation.token.secret.key": "a long random text"},
    )
    for user in users:
        properties = secured.client_settings(user).properties.items()
        lines = "".join(f"{key}={value}\n" for key, value in properties)
        (shell.folder / f"{user}.properties").write_text(lines)
    shell.run("unset TIDELOG_BOOTSTRAP")
    shell.export("TIDELOG_COMMAND_CONFIG", "admin.properties")
    (shell.folder / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "controller.listener.names=CONTROLLER\nlog.dirs=formatted\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
    )
    shell.use_free_cluster_ports()


PREPARATIONS: Final[dict[str, Callable[[DocumentShell], object]]] = {
    "README.md": DocumentShell.use_free_cluster_ports,
    "docs/configuration.md": DocumentShell.start_cluster,
    "docs/console.md": DocumentShell.start_cluster,
    "docs/migration.md": migration,
    "docs/monitoring.md": DocumentShell.start_cluster,
    "docs/operation.md": operation,
    "docs/security.md": security,
    "docs/share-groups.md": share_groups,
    "docs/streams-groups.md": streams_groups,
}


@pytest.mark.parametrize("document", PREPARATIONS)
def test_every_command_prints_what_the_document_shows(document: str, tmp_path: Path) -> None:
    with DocumentShell(tmp_path) as shell:
        PREPARATIONS[document](shell)
        for step in console_steps(ROOT / document):
            shell.check(step)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_commands_is_run_or_has_a_reason(document: Path) -> None:
    name = str(document.relative_to(ROOT))
    assert [text for text in code_blocks(document, "") if PROGRAM.match(text)] == []
    assert bool(list(console_steps(document))) == (name in PREPARATIONS or name == TUTORIAL)
    assert bool(code_blocks(document, "sh")) == (name in NOT_RUN)
    if name in NOT_RUN:
        first_lines = [text.partition("\n")[0] for text in code_blocks(document, "sh")]
        pytest.skip(f"not run: {', '.join(first_lines)}: {NOT_RUN[name]}")
