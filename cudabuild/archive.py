"""This module makes the static library: exactly the present objects, in one order, with nothing in it that varies."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cudabuild.cache.record import Record
from cudabuild.errors import BuildFailed, ToolchainError
from cudabuild.files import Digests
from cudabuild.host import Environment, run, search_path

Members = tuple[tuple[str, str], ...]
"""Unit name and digest of its object, in the archive's order."""


def is_fresh(path: str, members: Members, record: Record, digests: Digests) -> bool:
    """Whether the archive at `path` is the one that was made of these members."""
    return record.members == members and record.archive != "" and digests.of(path) == record.archive


def make_archive(path: str, objects: Sequence[str], env: Environment) -> None:
    """Replace the archive at `path` by one of these objects.

    `ar r` would keep members of sources that are gone, so the archive is always made anew, beside the old one, and renamed over
    it. `D` leaves out times, owners and modes.
    """
    found = search_path("ar", env.peek("PATH"))
    if not found:
        raise ToolchainError("ar is not on PATH", "install binutils")
    folder, name = os.path.split(path)
    fresh = f".{name}.{os.getpid()}.tmp"
    temporary = os.path.join(folder, fresh)
    try:
        if os.path.exists(temporary):
            os.unlink(temporary)
        argv = [found[0], "crsD", fresh, *(os.path.relpath(member, folder) for member in objects)]
        done = run(argv, env=env.copy(), cwd=folder)
        if done.returncode != 0:
            raise BuildFailed(
                f"ar could not write {path}: {(done.stderr or done.stdout).strip() or f'exit code {done.returncode}'}",
                "check the free space and the rights of that folder",
            )
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
