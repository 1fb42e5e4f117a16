"""`tidelog log dump`: prints and verifies the files of a log directory."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.failures import EXIT_FAILURE, UsageFailure, complain
from tidelog.cli.log_dump.files import FileDumper, files_to_dump
from tidelog.cli.log_dump.internal_records import Decoder, decoder_for_directory, decoder_named
from tidelog.cli.log_dump.output import JsonOutput, Output, TextOutput
from tidelog.storage.disk.errors import CorruptFile

app = typer.Typer(
    help="Print and verify the files of a log directory.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class RecordKind(StrEnum):
    """The kinds of records in internal topics."""

    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"
    METADATA = "metadata"


@app.callback()
def log() -> None:
    """Make `dump` a subcommand; without a callback, typer would make it the command itself."""


@app.command()
def dump(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files, partition directories, or a whole log directory."),
    ],
    records: Annotated[bool, typer.Option("-r", "--records", help="Also print every record.")] = False,
    decode: Annotated[
        bool, typer.Option("-d", "--decode", help="Decode the records of internal topics.")
    ] = False,
    kind: Annotated[
        RecordKind | None,
        typer.Option("--as", help="Decode all records as this kind, for any directory name."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Verify, and print only one line per file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print and verify segments, indexes, snapshots and checkpoints.

    Every batch of a segment is verified: its checksum, its offsets and its index entries. Each defect is
    reported on standard error with file and position; the exit code is then 1.
    """
    for path in paths:
        if not path.exists():
            raise UsageFailure(f"{path} does not exist")
    output: Output = JsonOutput() if as_json else TextOutput()
    dumper = FileDumper(
        output, records=records, choose_decoder=lambda file: _decoder(file, decode, kind), quiet=quiet
    )
    defects: list[CorruptFile] = []
    for path in paths:
        files = list(files_to_dump(path))
        if not files:
            raise UsageFailure(f"{path} has no segments, indexes, snapshots, checkpoints or partitions")
        for file in files:
            defects += dumper.dump(file)
    for defect in defects:
        complain(str(defect))
    if defects:
        raise typer.Exit(EXIT_FAILURE)


def _decoder(file: Path, decode: bool, kind: RecordKind | None) -> Decoder | None:
    if kind is not None:
        return decoder_named(kind.value)
    return decoder_for_directory(file.absolute().parent.name) if decode else None
