"""`tidelog cluster start|stop|status|kill|logs`: a cluster of several nodes on this machine."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.options import BOOTSTRAP_VARIABLE, AsJson, key_values
from tidelog.cli.output import print_json, print_table
from tidelog.local_cluster.cluster import ClusterFailure, LocalCluster
from tidelog.local_cluster.layout import CLUSTER_FILE, ClusterLayout
from tidelog.local_cluster.tiering import TIERING_KEY, tiered_settings

T = TypeVar("T")

DEFAULT_FOLDER: Final = Path("tidelog-cluster")
DEFAULT_NODES: Final = 3
DEFAULT_FIRST_PORT: Final = 19092
NODES_AT_MOST: Final = 9
FOLLOW_S: Final = 0.2

Folder = Annotated[
    Path,
    typer.Option("-d", "--data", metavar="FOLDER", help="The folder of the cluster, with everything in it."),
]
Node = Annotated[int, typer.Argument(metavar="NODE", help="The node's id.")]


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
            help="Nodes of a new cluster.",
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
            help="First port of a new cluster.",
        ),
    ] = None,
    override: Annotated[
        list[str],
        typer.Option(
            "-o", "--override", metavar="KEY=VALUE", help="A setting of all nodes of a new cluster."
        ),
    ] = [],  # noqa: B006
    tiered: Annotated[
        bool,
        typer.Option("--tiered", help="Give a new cluster remote storage, a directory beside its nodes."),
    ] = False,
) -> None:
    """Start a cluster, or those of its nodes that do not run; they go on in the background."""
    if (folder / CLUSTER_FILE).exists():
        cluster = _opened(folder)
        _require_as_it_is(cluster.layout, nodes, port, key_values(override, "--override"), tiered)
    else:
        if folder.exists() and any(folder.iterdir()):
            raise UsageFailure(f"--data {folder} is neither empty nor a cluster's folder")
        settings = key_values(override, "--override")
        count = nodes or DEFAULT_NODES
        if tiered:
            settings = tiered_settings(folder, count, settings)
        first_port = port or DEFAULT_FIRST_PORT
        cluster = LocalCluster.create(folder, count, first_port=first_port, settings=settings)
    seconds = _unless_failed(cluster.start)
    print(f"{len(cluster.running)} nodes run, ready after {seconds:.1f} s, all their data is in {folder}")
    print()
    print(f"  first     export {BOOTSTRAP_VARIABLE}={cluster.bootstrap_servers}")
    here = "" if folder == DEFAULT_FOLDER else f" -d {shlex.quote(str(folder))}"
    print(f"  look      tidelog cluster status{here}; tidelog cluster info; tidelog quorum describe")
    print(f"  break     tidelog cluster kill 1{here}; tidelog cluster start{here}")
    print(f"  end       tidelog cluster stop{here}")


def stop(folder: Folder = DEFAULT_FOLDER) -> None:
    """Shut all nodes down cleanly; their data stays."""
    cluster = _opened(folder)
    running = cluster.running
    _unless_failed(lambda: cluster.stop(running))
    print(f"{len(running)} nodes stopped")


def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show the nodes, their processes, and whether clients are told of them."""
    cluster = _opened(folder)
    known = cluster.known_brokers()
    rows = [
        (place.node_id, place.address, cluster.nodes[place.node_id].pid, place.node_id in known)
        for place in cluster.layout.nodes
    ]
    if as_json:
        keys = ("node", "address", "pid", "serves")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    words = {True: "serves", False: "not reached"}
    print_table(
        ("node", "address", "pid", "state"),
        [(*row[:3], words[row[3]] if row[2] is not None else "stopped") for row in rows],
    )


def kill(node: Node, folder: Folder = DEFAULT_FOLDER) -> None:
    """End a node at once (SIGKILL), as a crash would."""
    cluster = _opened(folder)
    _known(cluster, node)
    cluster.kill(node)
    print(f"node {node} was killed; `tidelog cluster start` brings it back")


def logs(
    node: Node,
    folder: Folder = DEFAULT_FOLDER,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until ctrl-C.")] = False,
) -> None:
    """Print what a node has logged."""
    cluster = _opened(folder)
    _known(cluster, node)
    path = cluster.nodes[node].log_path
    if not path.exists():
        complain(f"node {node} has not run yet")
        raise typer.Exit(1)
    with path.open(errors="replace") as log:
        print(log.read(), end="")
        while follow:
            print(log.read(), end="", flush=True)
            time.sleep(FOLLOW_S)


def _opened(folder: Path) -> LocalCluster:
    try:
        return LocalCluster.open(folder)
    except FileNotFoundError:
        raise UsageFailure(f"--data {folder} holds no cluster; `tidelog cluster start` makes one") from None
    except ValueError as error:
        raise UsageFailure(str(error)) from None


def _require_as_it_is(
    layout: ClusterLayout, nodes: int | None, port: int | None, settings: Mapping[str, str], tiered: bool
) -> None:
    differs = {
        "--nodes": nodes not in (None, len(layout.nodes)),
        "--port": port not in (None, layout.nodes[0].port),
        "--override": not settings.items() <= layout.settings.items(),
        "--tiered": tiered and layout.settings.get(TIERING_KEY) != "true",
    }
    for option in (name for name, is_other in differs.items() if is_other):
        raise UsageFailure(
            f"{option} is for a new cluster, and {layout.folder} has one that is otherwise: "
            "leave the option out, or take another folder by --data"
        )


def _known(cluster: LocalCluster, node: int) -> None:
    try:
        cluster.layout.node(node)
    except ValueError as error:
        raise UsageFailure(str(error)) from None


def _unless_failed(work: Callable[[], T]) -> T:
    try:
        return work()
    except ClusterFailure as error:
        complain(str(error))
        raise typer.Exit(1) from None
