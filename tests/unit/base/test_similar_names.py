from __future__ import annotations

from tidelog.base.similar_names import did_you_mean, similar_names

KEYS = ("retention.ms", "retention.bytes", "segment.ms", "segment.bytes")


def test_names_that_begin_with_the_text_come_before_those_with_few_differences() -> None:
    assert similar_names("retention", KEYS) == ["retention.ms", "retention.bytes"]
    assert similar_names("segment.mss", KEYS)[0] == "segment.ms"


def test_an_error_text_has_a_phrase_only_if_a_name_is_similar() -> None:
    assert did_you_mean("segmnt.ms", KEYS[:3]) == "; did you mean segment.ms?"
    assert did_you_mean("colour", KEYS) == ""
    assert did_you_mean("", KEYS) == ""
