"""The command as a separate process: signals, pipes, terminals, imports."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

import confluent_kafka
import pytest

from tests.support.cli import tidelog_output
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

DEADLINE_S = 60.0
COMMAND = [sys.executable, "-m", "tidelog.cli.main"]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        tidelog_output("topic", "create", "tides", "-p", "1", bootstrap=cluster.bootstrap_servers)
        lines = "".join(f"{number}\n" for number in range(2_000))
        tidelog_output("produce", "tides", stdin=lines, bootstrap=cluster.bootstrap_servers)
        yield cluster


@contextmanager
def process(
    *arguments: str, bootstrap: str = "127.0.0.1:1", stdin: int = subprocess.DEVNULL, cwd: Path = ROOT
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command with pipes for its output; kill it at the end if it still runs."""
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": bootstrap, "PYTHONPATH": str(ROOT)}
    started = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=cwd,
        # A shell's background jobs ignore ctrl-C, and so would the processes that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            started.kill()
        started.communicate()


def group_state(broker: EmbeddedCluster, group: str) -> str:
    for line in tidelog_output("group", "list", bootstrap=broker.bootstrap_servers).splitlines():
        if line.split()[0] == group:
            return line.split()[1]
    return "missing"


# --- signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_consumer_leaves_its_group(
    broker: EmbeddedCluster, number: signal.Signals, code: int
) -> None:
    group = f"stopped-by-{number.name}"
    with process("consume", "tides", "-g", group, bootstrap=broker.bootstrap_servers) as consumer:
        wait_until(lambda: group_state(broker, group) == "Stable")
        consumer.send_signal(number)
        out, err = consumer.communicate(timeout=DEADLINE_S)
    assert (consumer.returncode, err) == (code, b"")
    assert group_state(broker, group) == "Empty"
    assert out.splitlines()[:2] in ([b"0", b"1"], [])


def test_a_consumer_logs_once_that_the_broker_disconnected_and_once_that_it_returned(tmp_path: Path) -> None:
    with EmbeddedCluster(data_dir=tmp_path) as own:
        tidelog_output("produce", "tides", stdin="high\n", bootstrap=own.bootstrap_servers)
        with process("consume", "tides", bootstrap=own.bootstrap_servers) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            assert consumer.stdout.readline() == b"high\n"
            own.stop()
            assert consumer.stderr.readline().startswith(b"tidelog: Metadata refresh failed: no broker")
            own.start()
            assert consumer.stderr.readline() == b"tidelog: Cluster is reachable again\n"
            tidelog_output("produce", "tides", stdin="low\n", bootstrap=own.bootstrap_servers)
            assert consumer.stdout.readline() == b"low\n"


def test_a_producer_waiting_for_input_is_stopped_by_ctrl_c(broker: EmbeddedCluster) -> None:
    with process(
        "produce", "tides", "-v", bootstrap=broker.bootstrap_servers, stdin=subprocess.PIPE
    ) as producer:
        assert producer.stdin is not None
        assert producer.stdout is not None
        producer.stdin.write(b"a line\n")
        producer.stdin.flush()
        assert producer.stdout.readline().startswith(b"tides 0 ")
        producer.send_signal(signal.SIGINT)
        assert producer.wait(DEADLINE_S) == 130
        assert producer.stderr is not None
        assert producer.stderr.read() == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_producer_writes_the_lines_it_has_read(
    broker: EmbeddedCluster, number: signal.Signals, code: int
) -> None:
    options = ("-v", "-X", "linger.ms=600000", "-X", "delivery.timeout.ms=900000", "-X", "batch.size=100")
    topic = f"stopped-{code}"
    longer_than_a_batch = "x" * 200
    with process(
        "produce", topic, *options, bootstrap=broker.bootstrap_servers, stdin=subprocess.PIPE
    ) as producer:
        assert producer.stdin is not None
        assert producer.stdout is not None
        producer.stdin.write(f"{longer_than_a_batch}\nlingers\nunfinished".encode())
        producer.stdin.flush()
        # The first line is written at once. The second one has been read then, and waits for the linger time.
        assert producer.stdout.readline() == f"{topic} 0 0\n".encode()
        producer.send_signal(number)
        assert producer.wait(DEADLINE_S) == code
        assert producer.stdout.read() == f"{topic} 0 1\n".encode()
        assert producer.stderr is not None
        assert producer.stderr.read() == b""
    consumed = tidelog_output("consume", topic, "-e", bootstrap=broker.bootstrap_servers)
    assert consumed == f"{longer_than_a_batch}\nlingers\n"


def test_a_producer_stopped_while_the_broker_is_unavailable_reports_lost_records() -> None:
    with EmbeddedCluster() as own:
        tidelog_output("produce", "tides", stdin="high\n", bootstrap=own.bootstrap_servers)
        with process(
            "produce", "tides", "-v", bootstrap=own.bootstrap_servers, stdin=subprocess.PIPE
        ) as producer:
            assert producer.stdin is not None
            assert producer.stdout is not None
            assert producer.stderr is not None
            producer.stdin.write(b"one\n")
            producer.stdin.flush()
            assert producer.stdout.readline() == b"tides 0 1\n"
            own.stop()
            producer.stdin.write(b"two\nthree\n")
            producer.stdin.flush()
            assert producer.stderr.readline().startswith(b"tidelog: Metadata refresh failed")
            producer.send_signal(signal.SIGINT)
            # The line before it may report that the broker cannot be reached.
            assert producer.stderr.read().endswith(
                b"tidelog: 2 of 3 records that were read were not written\n"
            )
            assert producer.wait(DEADLINE_S) == 130


def test_a_closed_output_pipe_ends_the_command_without_error(broker: EmbeddedCluster) -> None:
    with process("consume", "tides", bootstrap=broker.bootstrap_servers) as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        assert consumer.stdout.readline() == b"0\n"
        consumer.stdout.close()
        tidelog_output("produce", "tides", stdin="more\n" * 100_0, bootstrap=broker.bootstrap_servers)
        assert consumer.wait(DEADLINE_S) == 141
        assert consumer.stderr.read() == b""
        consumer.stdout = None


# --- terminals and pipes


def test_a_closed_pipe_for_offsets_ends_the_producer(broker: EmbeddedCluster) -> None:
    with process(
        "produce", "gone", "-v", bootstrap=broker.bootstrap_servers, stdin=subprocess.PIPE
    ) as producer:
        assert producer.stdin is not None
        assert producer.stdout is not None
        assert producer.stderr is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        assert producer.stdout.readline() == b"gone 0 0\n"
        producer.stdout.close()

        def has_ended_after_another_line(pipe: IO[bytes] = producer.stdin) -> bool:
            pipe.write(b"next\n")
            pipe.flush()
            return producer.poll() is not None

        with suppress(BrokenPipeError):
            wait_until(has_ended_after_another_line)
        assert (producer.wait(DEADLINE_S), producer.stderr.read()) == (141, b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("topic list >&-", 0), ("produce closed <&-", 0), ("consume tides -e >&-", 0), ("topic list 2>&-", 0)],
)
def test_output_to_closed_standard_streams_is_discarded(
    broker: EmbeddedCluster, arguments: str, code: int
) -> None:
    command = f"exec {' '.join(COMMAND)} {arguments}"
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": broker.bootstrap_servers, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, env=environment, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (code, b"")


def test_output_to_a_pipe_has_no_colours(broker: EmbeddedCluster) -> None:
    for arguments in (["topic", "describe", "tides"], ["--help"], ["perf", "produce", "tides", "-n", "10"]):
        with process(*arguments, bootstrap=broker.bootstrap_servers) as command:
            out, err = command.communicate(timeout=DEADLINE_S)
        assert (command.returncode, err) == (0, b"")
        assert out
        assert b"\x1b" not in out


def test_a_table_on_a_terminal_shows_every_value(broker: EmbeddedCluster) -> None:
    outer, inner = pty.openpty()
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": broker.bootstrap_servers, "COLUMNS": "60"}
    command = subprocess.Popen(
        [*COMMAND, "topic", "list"], stdin=inner, stdout=inner, stderr=inner, env=environment, cwd=ROOT
    )
    os.close(inner)
    shown = b""
    with suppress(OSError):  # a closed terminal is reported by an error
        while data := os.read(outer, 4096):
            shown += data
    os.close(outer)
    assert command.wait(DEADLINE_S) == 0
    assert b"\x1b[1m" in shown
    assert b"tides" in shown


# --- brokers


def test_dev_starts_a_broker_and_keeps_its_data(tmp_path: Path) -> None:
    for expected in ([], [b"kept"]):
        with process("dev", "--port", "0", "--data", "here", cwd=tmp_path) as dev:
            assert dev.stdout is not None
            first = dev.stdout.readline().decode()
            assert first.startswith("Tidelog is ready at 127.0.0.1:")
            address = first.split()[4].rstrip(",")
            welcome = b"".join(iter(dev.stdout.readline, b"\n")) + b"".join(iter(dev.stdout.readline, b"\n"))
            assert f"export TIDELOG_BOOTSTRAP={address}".encode() in welcome
            topics = tidelog_output("topic", "list", bootstrap=address)
            if expected:
                assert tidelog_output("consume", "greetings", "-e", bootstrap=address) == "kept\n"
            else:
                assert "greetings" not in topics
                producer = confluent_kafka.Producer({"bootstrap.servers": address})
                producer.produce("greetings", "kept")
                assert producer.flush(DEADLINE_S) == 0
            dev.send_signal(signal.SIGINT)
            assert dev.wait(DEADLINE_S) == 0
            assert dev.stderr is not None
            assert dev.stderr.read() == b""
    assert (tmp_path / "here" / "greetings-0").is_dir()


def test_dev_prints_the_address_of_its_console(tmp_path: Path) -> None:
    with process("dev", "--port", "0", "--data", "here", cwd=tmp_path) as dev:
        assert dev.stdout is not None
        welcome = b"".join(iter(dev.stdout.readline, b"\n")) + b"".join(iter(dev.stdout.readline, b"\n"))
        address = welcome.decode().partition("browse ")[2].split()[0]

        def is_healthy() -> bool:
            try:
                with urlopen(f"{address}api/overview", timeout=DEADLINE_S) as response:
                    return bool(json.load(response)["healthy"])
            except URLError:  # the console starts after the broker
                return False

        wait_until(is_healthy)
        dev.send_signal(signal.SIGINT)
        assert dev.wait(DEADLINE_S) == 0
        assert dev.stderr is not None
        assert dev.stderr.read() == b""


def test_dev_without_a_console_names_the_command_for_one(tmp_path: Path) -> None:
    with process("dev", "-p", "0", "-o", "console.listener=", "-d", "here", cwd=tmp_path) as dev:
        assert dev.stdout is not None
        welcome = b"".join(iter(dev.stdout.readline, b"\n")) + b"".join(iter(dev.stdout.readline, b"\n"))
        assert b"browse    tidelog console\n" in welcome
        dev.send_signal(signal.SIGINT)
        assert dev.wait(DEADLINE_S) == 0


def test_dev_with_tiered_storage_copies_segments_to_a_directory(tmp_path: Path) -> None:
    with process("dev", "--tiered", "--port", "0", "--data", "here", cwd=tmp_path) as dev:
        assert dev.stdout is not None
        address = dev.stdout.readline().decode().split()[4].rstrip(",")
        welcome = b"".join(iter(dev.stdout.readline, b"\n")) + b"".join(iter(dev.stdout.readline, b"\n"))
        bucket = tmp_path / "here-tier" / "tier"
        assert f"the bucket is {bucket}\n".encode() in welcome
        configs = ("-c", "remote.storage.enable=true", "-c", "segment.bytes=1048576")
        tidelog_output("topic", "create", "tides", *configs, bootstrap=address)
        line = "high " * 20_000
        tidelog_output("produce", "tides", stdin=f"{line}\n" * 25, bootstrap=address)
        wait_until(lambda: list(bucket.rglob("*.log")))
        dev.send_signal(signal.SIGINT)
        assert dev.wait(DEADLINE_S) == 0


def test_librdkafka_connects_with_the_file_that_a_secured_dev_broker_prints(tmp_path: Path) -> None:
    for expected in ([], [b"kept"]):
        with process("dev", "--secure", "--port", "0", "--data", "here", cwd=tmp_path) as dev:
            assert dev.stdout is not None
            assert b"with SASL_SSL" in dev.stdout.readline()
            welcome = b"".join(iter(dev.stdout.readline, b"\n")) + b"".join(iter(dev.stdout.readline, b"\n"))
            path = Path(welcome.decode().partition("librdkafka:")[2].split()[0])
            assert path.stat().st_mode & 0o777 == 0o600
            settings = dict(line.split("=", 1) for line in path.read_text().splitlines())
            assert settings["sasl.password"].encode() not in welcome
            client_file = f"{path.parent}/client.properties"
            assert f"export TIDELOG_COMMAND_CONFIG={client_file}".encode() in welcome
            if expected:
                options = ("-e", "--command-config", client_file)
                assert tidelog_output("consume", "greetings", *options) == "kept\n"
            else:
                producer = confluent_kafka.Producer(settings)
                producer.produce("greetings", "kept")
                assert producer.flush(DEADLINE_S) == 0
            wrong_password = {**settings, "sasl.password": "wrong"}
            assert connection_error(wrong_password) == confluent_kafka.KafkaError._AUTHENTICATION
            unsecured = {"bootstrap.servers": settings["bootstrap.servers"]}
            assert connection_error(unsecured) in DISCONNECTED
            dev.send_signal(signal.SIGINT)
            assert dev.wait(DEADLINE_S) == 0
            assert dev.stderr is not None
            assert settings["sasl.password"].encode() not in dev.stderr.read()


DISCONNECTED = (confluent_kafka.KafkaError._TRANSPORT, confluent_kafka.KafkaError._ALL_BROKERS_DOWN)


def connection_error(settings: dict[str, str]) -> int:
    """Return the code of the first error that librdkafka reports when it connects."""
    errors: list[confluent_kafka.KafkaError] = []
    client = confluent_kafka.Producer({**settings, "error_cb": errors.append, "log_level": 0})
    wait_until(lambda: client.poll(0.05) > 0 or bool(errors))
    return int(errors[0].code())


def test_broker_accepts_a_file_and_overrides(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=3\nlisteners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path}/data\n")
    with process(
        "broker", "--config", str(config), "--override", "listeners=PLAINTEXT://127.0.0.1:0"
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith(b"broker 3 is ready on PLAINTEXT://127.0.0.1:")
        broker.terminate()
        assert broker.wait(DEADLINE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["broker", "--config", "no.such.file"], 2, b"no.such.file"),
        (["broker", "--override", "x"], 2, b"'x' is not key=value"),
        (["dev", "-o", "num.io.threads=many"], 2, b"num.io.threads=many"),
        (["dev", "-o", "x"], 2, b"--override 'x' is not key=value"),
        (["dev", "--log-level", "loud"], 2, b"--log-level"),
    ],
)
def test_a_broker_that_cannot_start_reports_the_reason(
    tmp_path: Path, arguments: list[str], code: int, words: bytes
) -> None:
    with process(*arguments, cwd=tmp_path) as broker:
        out, err = broker.communicate(timeout=DEADLINE_S)
    assert (broker.returncode, out) == (code, b"")
    assert words in err.splitlines()[-1]
    assert b"Traceback" not in err


def test_a_port_in_use_is_one_line(broker: EmbeddedCluster, tmp_path: Path) -> None:
    port = broker.bootstrap_servers.rpartition(":")[2]
    with process("dev", "--port", port, cwd=tmp_path) as second:
        _, err = second.communicate(timeout=DEADLINE_S)
    assert second.returncode == 1
    (line,) = err.splitlines()
    assert port.encode() in line


# --- imports


def import_modules(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom tidelog.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_does_not_load_the_broker_or_the_clients() -> None:
    loaded = import_modules("--help")
    assert "typer" in loaded
    assert not {"broker", "clients", "storage", "asyncio", "rich"} & loaded


def test_the_broker_does_not_import_libraries_of_the_command_line() -> None:
    loaded = import_modules("broker", "--help")
    assert "tidelog.broker.node.node" in loaded
    assert not {"typer", "rich"} & loaded


# --- the demo


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_stops_its_nodes(number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tidelog.demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert demo.stdout is not None
        ports = [int(port) for port in re.findall(rb"127\.0\.0\.1:(\d+)", demo.stdout.readline())]
        demo.send_signal(number)
        _, err = demo.communicate(timeout=DEADLINE_S)
    finally:
        demo.kill()
    assert demo.returncode == 130
    assert b"Traceback" not in err
    assert err.endswith(b"interrupted\n")
    assert len(ports) == 3
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
