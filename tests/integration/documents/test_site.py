"""The documents as a site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_other_servers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    pages = sorted(tmp_path.rglob("index.html"))
    assert len(pages) > 30
    loaded = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?(https?://[^\"' >]+)")
    foreign = {url for page in pages for url in loaded.findall(page.read_text())}
    assert foreign == set()
