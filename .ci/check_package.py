"""Compares the content of the wheel and the sdist with the source tree: python .ci/check_package.py dist."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = {
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    "conftest.py",
    "pyproject.toml",
}
LARGEST = 12e6  # bytes of a file to download


def tracked(*folders: str) -> set[str]:
    """Return the files under version control in some folders, as paths from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {name for name in listed.stdout.split("\0") if name}


def check_wheel(path: Path) -> None:
    """Raise an error unless the wheel holds the package, whole, and nothing else."""
    with zipfile.ZipFile(path) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    expect(names - metadata, {name.removeprefix("src/") for name in tracked("src/ultraspec")}, path)
    needed = {"METADATA", "entry_points.txt", "licenses/LICENSE"}
    if not needed <= {name.split("/", 1)[1] for name in metadata}:
        raise SystemExit(f"{path.name}: {sorted(needed)} are needed, but there is only {sorted(metadata)}")


def check_sdist(path: Path) -> None:
    """Raise an error unless the sdist holds the package, tests, docs and benchmarks, and nothing else."""
    with tarfile.open(path) as file:
        names = {member.name.split("/", 1)[1] for member in file.getmembers() if member.isfile()}
    expect(names - {".gitignore"}, TOP | tracked("src", "tests", "docs", "benchmarks"), path)


def expect(names: set[str], expected: set[str], path: Path) -> None:
    """Raise an error that lists the differences of two sets of names."""
    missing, extra = sorted(expected - names), sorted(names - expected)
    if missing or extra:
        raise SystemExit(f"{path.name}: missing {missing}, not expected {extra}")


def main(folder: str) -> None:
    """Check the one wheel and the one sdist of a folder."""
    (wheel,) = Path(folder).glob("*.whl")
    (sdist,) = Path(folder).glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    for path in (wheel, sdist):
        size = path.stat().st_size
        if size > LARGEST:
            raise SystemExit(f"{path.name} has {size / 1e6:.1f} MB; the limit is {LARGEST / 1e6:.0f} MB")
        print(f"{path.name}: {size / 1e6:.1f} MB, complete")


if __name__ == "__main__":
    main(sys.argv[1])
