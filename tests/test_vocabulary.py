"""The vocabulary of the product: words of an earlier dialect must not return.

Docstrings, comments, log lines and errors are checked. Readers know Kafka, and English is not their first
language: the field's own terms are used, and programs, replicas and clients are not persons.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tidelog"

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
}
BANNED = re.compile(r"\b(?:" + "|".join(REPLACEMENTS) + r")\b", re.IGNORECASE)


def test_the_vocabulary_of_the_field_is_used() -> None:
    found = {
        str(path.relative_to(ROOT)): words
        for path in sorted(PACKAGE.rglob("*.py"))
        if (words := BANNED.findall(text_of(path)))
    }
    assert found == {}, REPLACEMENTS


def text_of(path: Path) -> str:
    """Return the comments and strings of a file, and nothing else."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))
