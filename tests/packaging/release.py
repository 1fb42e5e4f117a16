"""`make release`: wheel, source distribution and release notes in `dist`, with checked metadata.

The README of the packages has no relative links, because a package index has none of our files. With
`--documents URL`, such links lead to files below this address; without it only their text remains.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from packaging.metadata import Metadata

from tests.support.paths import ROOT

_RELATIVE_LINK: Final = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")
_BUILD: Final = (
    "import sys; from setuptools import build_meta as backend; target = sys.argv[1];"
    "backend.build_sdist(target); backend.build_wheel(target)"
)


def without_relative_links(readme: str, documents: str | None) -> str:
    """Return the text with links to files of the project below `documents`, or without these links."""
    if documents is None:
        return _RELATIVE_LINK.sub(r"\1", readme)
    return _RELATIVE_LINK.sub(rf"[\1]({documents.rstrip('/')}/\2)", readme)


def release_notes(changelog: str, version: str) -> str:
    """Return the section "Unreleased" of the changelog; if it is empty, the section of `version`.

    Errors: ValueError if both are missing or empty.
    """
    sections = dict(re.findall(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    for name in ("Unreleased", version):
        if text := sections.get(name, "").strip():
            return f"# Tidelog {version}\n\n{text}\n"
    raise ValueError(f"CHANGELOG.md has no section 'Unreleased' and none for version {version}")


def build(target: Path, documents: str | None) -> tuple[Path, Path]:
    """Build wheel and source distribution in the empty folder `target`, from a copy of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        for package in ("tidelog", "pyspark_tidelog"):
            shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "LICENSE", "CHANGELOG.md"):
            shutil.copy(ROOT / name, source)
        readme = (ROOT / "README.md").read_text()
        (source / "README.md").write_text(without_relative_links(readme, documents))
        backend = Path(folder) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(backend)], check=True)
        python = str(backend / "bin" / "python")
        subprocess.run([python, "-m", "pip", "--quiet", "install", "setuptools>=77"], check=True)
        command = [python, "-c", _BUILD, str(target.absolute())]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the build failed:\n{done.stdout}{done.stderr}")
    return next(target.glob("*.whl")), next(target.glob("*.tar.gz"))


def checked_metadata(wheel: Path, source: Path) -> Metadata:
    """Return the metadata of both files. Errors: ValueError if it is invalid, or not as an index needs it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        in_wheel = archive.read(name)
    with tarfile.open(source) as sources:
        file = sources.extractfile(f"{source.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file is not None
        in_source = file.read()
    metadata = Metadata.from_email(in_wheel)
    if Metadata.from_email(in_source).version != metadata.version or str(metadata.version) not in wheel.name:
        raise ValueError(f"{wheel.name} and {source.name} do not have the same version")
    if metadata.description_content_type != "text/markdown":
        raise ValueError(f"the README is {metadata.description_content_type}; expected text/markdown")
    if link := _RELATIVE_LINK.search(metadata.description or ""):
        raise ValueError(f"the README has the relative link {link[0]}")
    for kind in ("classifiers", "project_urls", "license_expression", "requires_python", "summary"):
        if not getattr(metadata, kind):
            raise ValueError(f"the metadata has no {kind}")
    return metadata


def main() -> None:
    """Build a release in an empty folder, and print its files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("target", type=Path, help="the folder, which is emptied")
    parser.add_argument("--documents", metavar="URL", help="the address of the files to which README links")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.target, ignore_errors=True)
    arguments.target.mkdir(parents=True)
    wheel, source = build(arguments.target, arguments.documents)
    metadata = checked_metadata(wheel, source)
    notes = arguments.target / "RELEASE_NOTES.md"
    notes.write_text(release_notes((ROOT / "CHANGELOG.md").read_text(), str(metadata.version)))
    for path in (wheel, source, notes):
        print(f"{path}  {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
