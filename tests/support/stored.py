"""This module looks into a shared cache from outside."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path


def files(cache: Path, kind: str) -> list[Path]:
    """The files of one kind: entries, readings, probes, tmp, locks."""
    return sorted(path for path in (cache / "v1" / kind).rglob("*") if path.is_file())


def entries(cache: Path) -> list[Path]:
    return files(cache, "entries")


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that a folder holds, by relative path; a folder in it is None."""
    found = {}
    for path in folder.rglob("*"):
        found[str(path.relative_to(folder))] = path.read_bytes() if path.is_file() else None
    return found


@contextlib.contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    """Folders in which nobody can make or remove anything, root neither; a test cannot run where that cannot be had."""
    paths = [path for folder in folders for path in (folder, *folder.rglob("*")) if path.is_dir()]
    if os.geteuid() != 0:
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
        for path in paths:
            path.chmod(0o500)
        try:
            yield
        finally:
            for path, mode in modes.items():
                path.chmod(mode)
        return
    if subprocess.run(["chattr", "+i", *paths], capture_output=True, check=False).returncode != 0:
        import pytest

        subprocess.run(["chattr", "-i", *paths], capture_output=True, check=False)
        pytest.skip("root can write everywhere, and there is no chattr here")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *paths], check=True)
