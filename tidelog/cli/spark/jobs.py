"""The common parts of the jobs of `tidelog spark`: options, session and signals (shell)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tidelog.base.dataclass import dataclass
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import Terminated, UsageFailure
from tidelog.cli.options import key_values
from tidelog.cli.running import set_up_logging
from tidelog.cli.tier.sources import storage_values
from tidelog.spark_connector.jobs.session import SessionSettings, job_session
from tidelog.spark_connector.jobs.times import read_time_ms
from tidelog.spark_connector.jobs.topic_span import TopicSource, TopicSpan, find_span
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

SourceValues = Annotated[
    list[str],
    typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="An option of the tidelog source, such as failOnDataLoss=false (docs/spark.md).",
    ),
]
Tier = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="MODE",
        help="direct: tasks read remote segments from the bucket; offline: also without brokers.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="The master URL of Spark; default: local[*]."),
]
SparkConf = Annotated[
    list[str],
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark, such as spark.driver.memory=4g."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Start at the first record at or after this time, such as 2026-01-31."
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="TIME", help="Stop before the first record at or after this time; default: the end."
    ),
]


@dataclass(frozen=True, slots=True)
class TierChoice:
    """How remote segments are read: the source's option `tier`, and the settings of the bucket."""

    mode: str | None
    config: Path | None
    storage: Sequence[str]

    def options(self) -> dict[str, str]:
        """Return the options of the source. Errors: UsageFailure."""
        if self.mode is None:
            if self.config is not None or self.storage:
                raise UsageFailure("--config and -C need --tier direct or --tier offline")
            return {}
        values = storage_values(self.config, self.storage)
        return {"tier": self.mode, **{f"{STORAGE_PREFIX}{key}": text for key, text in values.items()}}


def spark_options(cluster: ClusterConnection) -> dict[str, str]:
    """Return the options of source and sink for TLS and SASL."""
    return {f"kafka.{key}": text for key, text in cluster.security_properties().items()}


def topic_source(
    cluster: ClusterConnection, topics: Sequence[str], values: Sequence[str], tier: TierChoice
) -> TopicSource:
    """Return the topics that a job reads. Errors: OptionError; UsageFailure."""
    options = {**spark_options(cluster), **tier.options(), **key_values(values, "-o")}
    return TopicSource(servers=cluster.bootstrap, topics=tuple(dict.fromkeys(topics)), options=options)


def times(begin: str | None, end: str | None) -> tuple[int | None, int | None]:
    """Return `--from` and `--to` in ms. Errors: OptionError."""
    return (
        None if begin is None else read_time_ms("--from", begin),
        None if end is None else read_time_ms("--to", end),
    )


def span_of(source: TopicSource, begin: str | None, end: str | None) -> TopicSpan:
    """Return the offsets between the times, from the brokers."""
    return find_span(source, *times(begin, end), {})


@contextmanager
def spark_session(name: str, master: str | None, conf: Sequence[str]) -> Iterator[SparkSession]:
    """Open a session for a job; ctrl-C and SIGTERM end the job. Errors: JobFailure; UsageFailure."""
    settings = SessionSettings(master=master, conf=key_values(conf, "--conf"))
    set_up_logging()
    with _ended_by_signals() as take_signals, job_session(name, settings) as session:
        # PySpark has set a handler that calls the JVM during another call.
        take_signals()
        yield session


@contextmanager
def _ended_by_signals() -> Iterator[Callable[[], None]]:
    """Make SIGINT and SIGTERM raise KeyboardInterrupt, which PySpark does not catch.

    SIGTERM then becomes Terminated. Yield a function that sets the handlers again after other code replaced
    them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    terminated = False

    def on_sigterm(_number: int, _frame: FrameType | None) -> NoReturn:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    def take() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, on_sigterm)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    take()
    try:
        yield take
    except KeyboardInterrupt:
        if not terminated:
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if terminated:
        raise Terminated
