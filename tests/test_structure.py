"""Checks of the program's structure: import cycles, size of classes and signatures, trivial modules.

Each exception that exists today is listed with its number. The test also fails when a number is larger than
that of the source, so that the lists shrink with the code.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tidelog"

PARAMETERS_MAX = 7
ATTRIBUTES_MAX = 20
PUBLIC_METHODS_MAX = 20
FILES_OF_A_FOLDER_MAX = 35

REFERENCE_SOFTWARE = "tests.reference_software"
"""How to start Apache Kafka: shared by tests and benchmarks."""

FOLDERS_WITH_A_FILE_FOR_EACH_API = {"tidelog.broker.api.handlers", "tidelog.protocol.messages"}

PARAMETER_EXCEPTIONS: dict[str, int] = {}
"""Commands of typer (one parameter for each option) are exempt; these are functions with too many."""

ATTRIBUTE_EXCEPTIONS: dict[str, int] = {}

PUBLIC_METHOD_EXCEPTIONS = {
    # One method for each event of a connection.
    "tidelog.broker.network.connection_core:ConnectionCore": 29,
    # The methods of the port RaftLog, and those by which the node flushes, cleans and closes the log.
    "tidelog.broker.raft.log:MetadataLog": 23,
    # The methods of a client are its public API, as in Kafka: Admin delegates each to the class of its area.
    "tidelog.clients.admin.admin:Admin": 55,
    "tidelog.clients.consumer.consumer:Consumer": 25,
    # A facade: its offsets, appends, reads and truncations; all others are methods of its eleven parts.
    "tidelog.storage.log.partition_log:PartitionLog": 35,
    # The methods of the file system's port, and the faults.
    "tidelog.testing.simulation.crash_file_system:CrashFileSystem": 28,
    # The methods of an event loop of asyncio.
    "tidelog.testing.simulation.event_loop:SimulatedLoop": 25,
}

CLOCKS_AND_RANDOMNESS = {
    "time": {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "process_time_ns",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "random": {
        "Random",
        "SystemRandom",
        "choice",
        "getrandbits",
        "randbytes",
        "randint",
        "random",
        "randrange",
        "sample",
        "shuffle",
        "uniform",
    },
    "uuid": {"uuid1", "uuid4", "uuid6", "uuid7"},
    "os": {"urandom"},
    "secrets": {"choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe"},
}

DIRECT_READS = {
    # The one clock and the one source of randomness.
    "tidelog.base.clock": {"time.perf_counter", "time.perf_counter_ns", "time.time_ns"},
    "tidelog.base.randomness": {"random.SystemRandom"},
    # The randomness of clients, which is passed on as part of their environment.
    "tidelog.clients.config.environment": {"random.Random"},
    # Keys and nonces are secure only if they come from the operating system.
    "tidelog.remote.objects.layout.encryption": {"secrets.token_bytes"},
    "tidelog.remote.objects.layout.rsa_oaep": {"secrets.randbelow", "secrets.token_bytes"},
    # The password of a private key in a temporary file.
    "tidelog.security.tls.contexts": {"secrets.token_hex"},
    # Values from a fixed seed: each run writes the same records.
    "tidelog.cli.records.perf": {"random.Random"},
    # All choices of a simulation come from its seed.
    "tidelog.testing.simulation.crash_images": {"random.Random"},
    "tidelog.testing.simulation.crash_tree": {"random.Random"},
    "tidelog.testing.simulation.process": {"random.Random"},
    "tidelog.testing.simulation.scheduler": {"random.Random"},
}
"""The modules that read a clock or draw a random number themselves; all others are passed a port."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    """Return the parsed files of the product by module name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


WITHOUT_SLOTS = {
    "tidelog.broker.node.wiring.node_context",
    "tidelog.testing.simulation.crash_tree",
    "tidelog.spark_connector.writing.delivery",
    "tidelog.security.certificate_authority",
}
"""The modules with dataclasses whose instances have other attributes than fields, or a base without slots."""


def test_no_files_import_each_other_in_a_cycle(modules: dict[str, ast.Module]) -> None:
    imports = {name: imported_modules_of(tree, modules) - {name} for name, tree in modules.items()}
    cycles = [set(cycle) for cycle in strongly_connected(imports) if len(cycle) > 1]
    assert cycles == []


def test_no_folders_import_each_other_in_a_cycle(modules: dict[str, ast.Module]) -> None:
    imports = {name: imported_modules_of(tree, modules) - {name} for name, tree in modules.items()}
    packages = {name.rpartition(".")[0] for name in modules} - {""}
    cycles = [
        cycle
        for package in sorted(packages)
        for cycle in strongly_connected(imports_between_parts(imports, package))
        if len(cycle) > 1
    ]
    assert cycles == []


def imports_between_parts(imports: Mapping[str, set[str]], package: str) -> dict[str, set[str]]:
    """Return which files and folders directly in `package` import which others of it."""
    depth = package.count(".") + 2

    def part_of(name: str) -> str | None:
        return ".".join(name.split(".")[:depth]) if name.startswith(f"{package}.") else None

    graph: dict[str, set[str]] = {}
    for importer, names in imports.items():
        part = part_of(importer)
        if part is not None:
            others = {other for name in names if (other := part_of(name)) is not None}
            graph.setdefault(part, set()).update(others - {part})
    return graph


def test_functions_have_few_parameters(modules: dict[str, ast.Module]) -> None:
    parameter_counts = {
        f"{name}:{qualified}": parameter_count(function)
        for name, tree in modules.items()
        if not name.startswith("tidelog.cli.")
        for qualified, function in functions(tree)
    }
    assert_only_exceptions(parameter_counts, PARAMETERS_MAX, PARAMETER_EXCEPTIONS)


def test_objects_have_few_attributes(modules: dict[str, ast.Module]) -> None:
    attribute_counts = {
        f"{name}:{owner.name}": len(attributes_set_on_self(owner))
        for name, tree in modules.items()
        for owner in classes(tree)
    }
    assert_only_exceptions(attribute_counts, ATTRIBUTES_MAX, ATTRIBUTE_EXCEPTIONS)


def test_classes_have_few_public_methods(modules: dict[str, ast.Module]) -> None:
    method_counts = {
        f"{name}:{owner.name}": sum(
            isinstance(node, Function) and not node.name.startswith("_") for node in owner.body
        )
        for name, tree in modules.items()
        for owner in classes(tree)
    }
    assert_only_exceptions(method_counts, PUBLIC_METHODS_MAX, PUBLIC_METHOD_EXCEPTIONS)


def test_no_folder_is_a_flat_directory_of_many_files(modules: dict[str, ast.Module]) -> None:
    file_counts = Counter(name.rpartition(".")[0] for name in modules)
    large = {name for name, count in file_counts.items() if count > FILES_OF_A_FOLDER_MAX}
    assert large == FOLDERS_WITH_A_FILE_FOR_EACH_API


def test_no_module_has_a_single_assignment_only(modules: dict[str, ast.Module]) -> None:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    trivial = [
        name
        for name, tree in modules.items()
        if not name.endswith("__main__")
        and not (PACKAGE.parent / Path(*name.split(".")) / "__init__.py").exists()
        and len(statements := meaningful_statements(tree)) == 1
        and not isinstance(statements[0], kinds)
    ]
    assert trivial == []


def test_benchmarks_import_only_the_reference_software_of_tests() -> None:
    others = [each for each in imports_of("tests", "benchmarks") if f" {REFERENCE_SOFTWARE}" not in each]
    assert others == []


def test_only_the_tests_of_benchmarks_import_them() -> None:
    allowed = "tests/unit/benchmarks/"
    assert [each for each in imports_of("benchmarks", "tests") if not each.startswith(allowed)] == []


def test_reference_software_imports_neither_other_tests_nor_benchmarks() -> None:
    folder = REFERENCE_SOFTWARE.replace(".", "/")
    others = [each for each in imports_of("tests", folder) if f" {REFERENCE_SOFTWARE}" not in each]
    assert others == []
    assert imports_of("benchmarks", folder) == []


def imports_of(package: str, folder: str) -> list[str]:
    """Return the imports of modules of the top-level `package` in `folder`, each with its file."""
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees_of_files_with(package, folder)
        for node in ast.walk(tree)
        for name in absolute_imports(node)
        if name.partition(".")[0] == package
    ]


def trees_of_files_with(word: str, *folders: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the files in `folders` whose text contains `word`, with their syntax trees.

    Most files do not contain the word, and parsing all of them takes seconds.
    """
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if word in text:
                yield path, ast.parse(text)


def absolute_imports(node: ast.AST) -> list[str]:
    """Return the absolute module names of an import statement; none for any other node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    return []


def test_no_seed_or_name_comes_from_hash() -> None:
    """Python's hash of a string differs from process to process, so that such a seed repeats nothing.

    The hash of an object may be the subject of a test: then it is compared with another hash.
    """
    calls = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, tree in trees_of_files_with("hash(", "tests", "benchmarks")
        for call in calls_of_hash(tree)
    ]
    assert calls == []


def calls_of_hash(tree: ast.Module) -> list[ast.Call]:
    """Return the calls of `hash` that are not an operand of a comparison."""
    compared = {
        id(operand)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for operand in (node.left, *node.comparators)
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "hash"
        and id(node) not in compared
    ]


def test_dataclasses_with_slots_compile_no_methods_at_import(modules: dict[str, ast.Module]) -> None:
    """With `tidelog.base.dataclass` the import of a module does not take the time of the compiler."""
    standard = {
        name
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(alias.name == "dataclass" for alias in node.names)
    }
    assert standard == WITHOUT_SLOTS | {"tidelog.base.dataclass"}


def test_clocks_and_randomness_are_passed_as_ports(modules: dict[str, ast.Module]) -> None:
    reads = {name: functions for name, tree in modules.items() if (functions := direct_reads(tree))}
    assert reads == DIRECT_READS


def test_direct_reads_are_found() -> None:
    code = """
from time import monotonic
from uuid import UUID, uuid4 as new_id
import datetime, random, time
datetime.datetime.now(), random.randrange(3), time.sleep(1), time.time
"""
    assert direct_reads(ast.parse(code)) == {
        "time.monotonic",
        "time.time",
        "uuid.uuid4",
        "datetime.now",
        "random.randrange",
    }


def direct_reads(tree: ast.Module) -> set[str]:
    """Return the clocks and the random functions that a module uses directly."""
    functions_used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in CLOCKS_AND_RANDOMNESS:
            names = {alias.name for alias in node.names} & CLOCKS_AND_RANDOMNESS[node.module]
            functions_used.update(f"{node.module}.{name}" for name in names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if node.attr in CLOCKS_AND_RANDOMNESS.get(owner, ()):
                functions_used.add(f"{owner}.{node.attr}")
    return functions_used


def assert_only_exceptions(counts: Mapping[str, int], limit: int, exceptions: Mapping[str, int]) -> None:
    """Fail unless exactly the listed names exceed the limit, each with the listed number."""
    assert {name: count for name, count in counts.items() if count > limit} == dict(exceptions)


def meaningful_statements(tree: ast.Module) -> list[ast.stmt]:
    return [
        node
        for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Return each function with its name, which includes its class."""
    owned = {
        id(node): owner.name for owner in classes(tree) for node in owner.body if isinstance(node, Function)
    }
    for node in ast.walk(tree):
        if isinstance(node, Function):
            owner = owned.get(id(node))
            yield (f"{owner}.{node.name}" if owner else node.name), node


def parameter_count(function: Function) -> int:
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def attributes_set_on_self(owner: ast.ClassDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def imported_modules_of(tree: ast.Module, modules: Mapping[str, object]) -> set[str]:
    """Return the product's modules that a module imports, also those for type checking only."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    names.add(inner)
                elif node.module in modules:
                    names.add(node.module)
    return names


def strongly_connected(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of a graph (Tarjan), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    components: list[list[str]] = []
    for root in graph:
        work = [(root, iter(graph[root]))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            path.append(root)
        while work:
            node, edges = work[-1]
            for neighbour in edges:
                if neighbour not in index:
                    index[neighbour] = low[neighbour] = len(index)
                    path.append(neighbour)
                    work.append((neighbour, iter(graph[neighbour])))
                    break
                if neighbour in path:
                    low[node] = min(low[node], index[neighbour])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    start = path.index(node)
                    components.append(path[start:])
                    del path[start:]
    return components


def test_imports_between_folders_are_found() -> None:
    imports = {
        "p.a.one": {"p.b.two"},
        "p.a.three": {"p.a.one"},
        "p.b.two": set(),
        "p.b.four": {"p.a.three", "q"},
        "p": {"p.a.one"},
        "q": set(),
    }
    assert imports_between_parts(imports, "p") == {"p.a": {"p.b"}, "p.b": {"p.a"}}


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": set[str]()}
    assert sorted(map(sorted, strongly_connected(graph))) == [["a", "b", "c"], ["d"], ["e"]]
