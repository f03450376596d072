"""Folders of files that are read as one table."""

from __future__ import annotations

from pathlib import Path


def find_parts(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files with these suffixes in a folder and its subfolders, in the order of their names.

    Hidden files and folders, whose names begin with a dot or an underscore, are left out.
    """
    files = (path for path in folder.rglob("*") if path.name.lower().endswith(suffixes) and path.is_file())
    shown = (path for path in files if not any(part[0] in "._" for part in path.relative_to(folder).parts))
    return sorted(shown, key=str)
