"""`tidelog cluster start|stop|status|kill|logs`: a local cluster of several nodes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from tidelog.base.count_text import count_text
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.local.broker_overrides import broker_overrides
from tidelog.cli.local.development_security import CLIENT_FILE, development_security, write_client_files
from tidelog.cli.options import BOOTSTRAP_VARIABLE, COMMAND_CONFIG_VARIABLE, AsJson
from tidelog.cli.output import print_json, print_result, print_table
from tidelog.local_cluster.cluster import ClusterFailure, LocalCluster
from tidelog.local_cluster.layout import CLUSTER_FILE
from tidelog.local_cluster.tiering import TIERING_KEY, tiered_settings

T = TypeVar("T")

DEFAULT_FOLDER: Final = Path("tidelog-cluster")
DEFAULT_NODES: Final = 3
DEFAULT_FIRST_PORT: Final = 19092
NODES_AT_MOST: Final = 9
FOLLOW_S: Final = 0.2

Folder = Annotated[
    Path,
    typer.Option("-d", "--data", metavar="DIRECTORY", help="The directory of the cluster's data."),
]
Node = Annotated[int, typer.Argument(metavar="NODE", help="The node id.")]
Tiered = Annotated[
    bool, typer.Option("--tiered", help="Enable remote storage for a new cluster, in its directory.")
]
Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="Secure a new cluster: SASL_SSL, an authorizer, a development CA and an administrator.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `tidelog cluster`."""
    for command in (start, stop, status, kill, logs):
        app.command()(command)


def start(
    folder: Folder = DEFAULT_FOLDER,
    nodes: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--nodes",
            metavar="N",
            min=1,
            max=NODES_AT_MOST,
            show_default=str(DEFAULT_NODES),
            help="The number of nodes of a new cluster.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "-p",
            "--port",
            metavar="PORT",
            min=1,
            max=65000,
            show_default=str(DEFAULT_FIRST_PORT),
            help="The first port of a new cluster.",
        ),
    ] = None,
    override: Annotated[
        list[str],
        typer.Option(
            "-o", "--override", metavar="KEY=VALUE", help="A setting of all nodes of a new cluster."
        ),
    ] = [],  # noqa: B006
    tiered: Tiered = False,
    secure: Secure = False,
) -> None:
    """Create and start a local cluster in the background.

    If the cluster exists, start its stopped nodes.
    """
    settings = broker_overrides(override)
    if (folder / CLUSTER_FILE).exists():
        cluster = _open(folder)
        _check_same_options(cluster, nodes, port, settings, tiered, secure)
        seconds = _run(cluster.start)
    else:
        if folder.exists() and any(folder.iterdir()):
            raise UsageFailure(f"--data {folder} is neither empty nor the directory of a cluster")
        if tiered:
            settings = tiered_settings(folder, nodes or DEFAULT_NODES, settings)
        cluster = LocalCluster.create(
            folder,
            nodes or DEFAULT_NODES,
            first_port=port or DEFAULT_FIRST_PORT,
            settings=settings,
            security=development_security() if secure else None,
        )
        seconds = _run(cluster.start)
        _prepare_clients(cluster)
    _print_next_steps(cluster, folder, seconds)


def _print_next_steps(cluster: LocalCluster, folder: Path, seconds: float) -> None:
    nodes = len(cluster.running)
    ready = f"{count_text(nodes, 'node')} {'is' if nodes == 1 else 'are'} ready"
    print(f"{ready} after {seconds:.1f} s; the data is in {folder}")
    print()
    if cluster.security is None:
        print(f"  first     export {BOOTSTRAP_VARIABLE}={cluster.bootstrap_servers}")
    else:
        print(f"  first     export {COMMAND_CONFIG_VARIABLE}={shlex.quote(str(_client_file(cluster)))}")
        print("  try       tidelog topic create greetings; echo hello | tidelog produce greetings")
        print("  users     tidelog user create alice; tidelog acl add --allow-principal User:alice ...")
    here = "" if folder == DEFAULT_FOLDER else f" -d {shlex.quote(str(folder))}"
    print(f"  inspect   tidelog cluster status{here}; tidelog cluster info; tidelog quorum describe")
    print(f"  kill      tidelog cluster kill 1{here}; tidelog cluster start{here}")
    print(f"  stop      tidelog cluster stop{here}")


def _prepare_clients(cluster: LocalCluster) -> None:
    """Create the users and the files for clients of a secured cluster."""
    if cluster.security is None:
        return
    _run(cluster.create_users)
    client = cluster.security.client_settings(cluster.bootstrap_servers)
    write_client_files(cluster.layout.folder, client)


def _client_file(cluster: LocalCluster) -> Path:
    return cluster.layout.folder / CLIENT_FILE


def stop(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Stop all nodes cleanly; their data is kept."""
    cluster = _open(folder)
    running = cluster.running
    _run(lambda: cluster.stop(running))
    print_result(as_json, f"{count_text(len(running), 'node')} stopped", stopped=running)


def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show the nodes, their processes and whether they serve clients."""
    cluster = _open(folder)
    broker_ids = cluster.known_brokers()
    rows = [
        (address.node_id, address.address, cluster.nodes[address.node_id].pid, address.node_id in broker_ids)
        for address in cluster.layout.nodes
    ]
    if as_json:
        keys = ("node", "address", "pid", "serves")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    states = {True: "serving", False: "not reached"}
    print_table(
        ("node", "address", "pid", "state"),
        [(*row[:3], states[row[3]] if row[2] is not None else "stopped") for row in rows],
    )


def kill(node: Node, folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Kill a node (SIGKILL), as in a crash."""
    cluster = _open(folder)
    _check_node(cluster, node)
    cluster.kill(node)
    print_result(as_json, f"node {node} was killed; `tidelog cluster start` starts it again", killed=node)


def logs(
    node: Node,
    folder: Folder = DEFAULT_FOLDER,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new lines until ctrl-C.")] = False,
) -> None:
    """Print the log of a node."""
    cluster = _open(folder)
    _check_node(cluster, node)
    path = cluster.nodes[node].log_path
    if not path.exists():
        complain(f"node {node} was not started yet")
        raise typer.Exit(1)
    with path.open(errors="replace") as log:
        print(log.read(), end="")
        while follow:
            print(log.read(), end="", flush=True)
            time.sleep(FOLLOW_S)


def _open(folder: Path) -> LocalCluster:
    try:
        return LocalCluster.open(folder)
    except FileNotFoundError:
        raise UsageFailure(f"--data {folder} has no cluster; `tidelog cluster start` creates one") from None
    except ValueError as error:
        raise UsageFailure(str(error)) from None


def _check_same_options(
    cluster: LocalCluster,
    nodes: int | None,
    port: int | None,
    settings: Mapping[str, str],
    tiered: bool,
    secure: bool,
) -> None:
    layout = cluster.layout
    differs = {
        "--nodes": nodes not in (None, len(layout.nodes)),
        "--port": port not in (None, layout.nodes[0].port),
        "--override": not settings.items() <= layout.settings.items(),
        "--secure": secure and cluster.security is None,
        "--tiered": tiered and layout.settings.get(TIERING_KEY) != "true",
    }
    for option in (name for name, is_other in differs.items() if is_other):
        raise UsageFailure(
            f"{option} differs from the cluster in {layout.folder}: "
            "omit the option, or use another directory with --data"
        )


def _check_node(cluster: LocalCluster, node: int) -> None:
    try:
        cluster.layout.node(node)
    except ValueError as error:
        raise UsageFailure(str(error)) from None


def _run(work: Callable[[], T]) -> T:
    try:
        return work()
    except ClusterFailure as error:
        complain(str(error))
        raise typer.Exit(1) from None
