"""The vocabulary of product, tests and benchmarks: words of an earlier dialect must not return.

Docstrings, comments, log lines and errors are checked, all names of tests, and the names of classes and
variables of tests. Readers know Kafka; English is not their first language: the field's own terms are used,
and programs, replicas and clients are not persons.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

REPLACEMENTS = {
    r"who(?:ever)?": "the caller, the client, the replica",
    r"(?:no|some)body": "no replica, unused, a client",
    r"anew|made again": "again, re-created, from scratch",
    r"told|tells?|teller": "notified, reports",
    r"hears?|heard": "received",
    r"puts? aside": "retired, quarantined",
    r"let in|lets? go of": "admitted, unfenced, released",
    r"in office|takes? over": "leader, becomes leader",
    r"goes on|go on": "continues, resumes",
    r"(?:is|are) over": "has ended, completed",
    r"(?:stands?|stood|lies) in|what is there": "is stored in, contents",
    r"(?:is|are) due|comes? to|at hand": "is scheduled, expires, results in, is available",
    r"in turns|beside": "alternating, compared with",
    r"askers?|the other side": "the requester, the peer",
    r"what keeps|what is given": "maintains, arguments",
    r"(?:un)?answer(?:s|ed|ing)?": "response, result, responds, acknowledged",
}
BANNED = re.compile(r"\b(?:" + "|".join(REPLACEMENTS) + r")\b", re.IGNORECASE)

# Words that have a term of the field in every name of a test.
NOT_IN_TEST_NAMES = {
    "who|whoever|nobody|somebody|everybody": "the client, the broker, no replica, every member",
    "told|tell|tells|hear|hears|heard|said|say|says": "notified, reported, received",
    "wish|wishes|believed|believes|thinks|speaks|minds": "request, accepted, assumed",
    "asker|stranger|strangers": "the requester, an unknown client",
    "answer|answers|answered|unanswered": "response, gets a response",
    "story|stories|tale|lie|lies|liar|monstrous|torn": "scenario, wrong, oversized, truncated",
    "foretold|foretell|anew|beside|sake": "predicted, again, next to, for",
    "news|noticed|wanted|wants|unharmed": "changes, detected, requested, unchanged",
}

# Names of classes and variables that do not tell what the object is. Attributes and methods count as well.
NOT_NAMES_OF_OBJECTS = {
    "Made|Told|Gone|Weather|Storm": "a noun, such as OutcomeRecorder",
    "given|asked|told|heard|seen": "configs, requests, received, records, response",
    "made|led|gone": "created_logs, leader_partitions, disconnected",
    "answer|answers|answered": "response, responses, result; acknowledged",
}
NOT_NAMES_OF_OBJECTS_IN_TESTS = {
    "Bench|Rig|World|House|Scene|bench|rig|world|house|scene": "<Subject>Fixture; fixture, cluster",
    "found|opened|known": "records, session, acknowledged",
}


def test_the_vocabulary_of_the_field_is_used() -> None:
    violations = {
        str(path.relative_to(ROOT)): words
        for folder in ("tidelog", "pyspark_tidelog", "tests", "benchmarks", "docker")
        for path in sorted((ROOT / folder).rglob("*.py"))
        # Most files have no such word anywhere, and reading the tokens of all files takes seconds.
        if path != Path(__file__) and BANNED.search(path.read_text())
        if (words := BANNED.findall(text_of(path)))
    }
    assert violations == {}, REPLACEMENTS


def test_test_names_use_the_vocabulary_of_the_field() -> None:
    banned = {word for words in NOT_IN_TEST_NAMES for word in words.split("|")}
    violations = {
        f"{path.relative_to(ROOT)}: {name}": words
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
        if (words := banned.intersection(name.split("_")))
    }
    assert violations == {}, NOT_IN_TEST_NAMES


def test_names_of_objects_are_nouns() -> None:
    banned = {word for words in NOT_NAMES_OF_OBJECTS for word in words.split("|")}
    assert files_that_bind(banned, "tidelog", "tests", "benchmarks") == {}, NOT_NAMES_OF_OBJECTS


def test_names_of_objects_in_tests_are_nouns() -> None:
    banned = {word for words in NOT_NAMES_OF_OBJECTS_IN_TESTS for word in words.split("|")}
    assert files_that_bind(banned, "tests") == {}, NOT_NAMES_OF_OBJECTS_IN_TESTS


def files_that_bind(banned: set[str], *folders: str) -> dict[str, set[str]]:
    """Return the files in `folders` in which a banned name is given to an object, with these names."""
    # Parsing all files takes seconds: only those are parsed that have a name before one of these marks.
    binding = re.compile(rf"\b_*(?:{'|'.join(banned)})\b(?:\s*(?:[=:,)(]|:=|\+=)|\s+in\b)")
    return {
        str(path.relative_to(ROOT)): names
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__) and binding.search(path.read_text())
        if (names := banned.intersection(names_bound_in(path)))
    }


def names_bound_in(path: Path) -> set[str]:
    """Return the names that a file gives to classes, functions, parameters, variables and attributes."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name.lstrip("_"))
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name.lstrip("_"))
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name.lstrip("_"))
    return names


def text_of(path: Path) -> str:
    """Return the comments and strings of a file, and nothing else."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))
