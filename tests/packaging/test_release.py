"""`make release`: the links of its README, and its notes."""

from __future__ import annotations

import pytest

from tests.packaging.release import release_notes, without_relative_links

README = "[a](docs/a.md#b), [site](https://kafka.apache.org), [here](#top)"
CHANGELOG = "# Changelog\n\n## Unreleased\n{}\n## 0.2.0 - 2026-11-28\n\n- new\n\n## 0.1.0\n\n- first\n"


def test_relative_links_become_absolute_or_are_removed() -> None:
    others = "[site](https://kafka.apache.org), [here](#top)"
    assert without_relative_links(README, "https://host/x/") == f"[a](https://host/x/docs/a.md#b), {others}"
    assert without_relative_links(README, None) == f"a, {others}"


def test_release_notes_are_the_unreleased_changes_or_those_of_the_version() -> None:
    assert release_notes(CHANGELOG.format("\n- next\n"), "0.2.0") == "# Tidelog 0.2.0\n\n- next\n"
    assert release_notes(CHANGELOG.format(""), "0.2.0") == "# Tidelog 0.2.0\n\n- new\n"
    assert release_notes(CHANGELOG.format(""), "0.1.0") == "# Tidelog 0.1.0\n\n- first\n"
    with pytest.raises(ValueError, match=r"none for version 0\.3\.0"):
        release_notes(CHANGELOG.format(""), "0.3.0")
