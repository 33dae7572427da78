"""This module writes what ninja runs: one shell script a step, and the build.ninja that lists them.

A script holds the command, so build.ninja needs no quoting of its own, no command is too long for `sh -c`, and anybody can run
a failed step again by hand. ninja's targets are mere names: what a step made is judged from its files, not by ninja.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One command, run in `cwd`. `folder` is its own scratch folder, absolute; `temporary` the same folder's tmp as seen from
    `cwd`."""

    name: str
    summary: str
    argv: tuple[str, ...]
    cwd: str
    folder: str
    temporary: str

    @property
    def script(self) -> str:
        return os.path.join(self.folder, "step.sh")

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "log")

    @property
    def started(self) -> str:
        return os.path.join(self.folder, "started")

    @property
    def ended(self) -> str:
        return os.path.join(self.folder, "ended")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a step ended. `exit_code` is None when it did not run or was cut off; times are nanoseconds of the file system's
    clock."""

    exit_code: int | None
    output: str
    started_ns: int
    ended_ns: int

    @property
    def milliseconds(self) -> int:
        return max(0, self.ended_ns - self.started_ns) // 1_000_000


def write(steps: Sequence[Step], folder: str, pool: int | None) -> str:
    """Write the scripts and build.ninja below `folder`; the path of build.ninja. At most `pool` steps run at once."""
    rules = ["ninja_required_version = 1.10", f"builddir = {_escaped(folder)}"]
    if pool is not None:
        rules += ["pool jobs", f"  depth = {pool}"]
    rules += ["rule step", "  command = exec sh $script", "  description = $summary"]
    rules += ["  pool = jobs", ""] if pool is not None else [""]
    for number, step in enumerate(steps):
        os.makedirs(os.path.join(step.folder, "tmp"))
        with open(step.script, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(_script(step))
        rules += [
            f"build step{number}: step", f"  script = {_escaped(shlex.quote(step.script))}",
            f"  summary = {_escaped(step.summary)}", "",
        ]  # fmt: skip
    path = os.path.join(folder, "build.ninja")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(rules))
    return path


def outcome(step: Step) -> Outcome:
    """Read back how a step ended."""
    started, ended = _mtime(step.started), _mtime(step.ended)
    try:
        with open(step.ended, encoding="ascii") as file:
            exit_code: int | None = int(file.read())
    except (OSError, ValueError):
        exit_code = None
    try:
        with open(step.log, encoding="utf-8", errors="replace") as file:
            output = file.read()
    except OSError:
        output = ""
    return Outcome(exit_code=exit_code, output=output, started_ns=started, ended_ns=max(started, ended))


def _script(step: Step) -> str:
    """The started file's time stamp is the file system's own clock, to be compared with those of the files that were read.
    TMPDIR is private: a compile that is killed leaves its files where the next build removes them."""
    command = " ".join(shlex.quote(argument) for argument in step.argv)
    return (
        f"cd {shlex.quote(step.cwd)}\n"
        f": > {shlex.quote(step.started)}\n"
        f"TMPDIR={shlex.quote(step.temporary)} {command} > {shlex.quote(step.log)} 2>&1 < /dev/null\n"
        "code=$?\n"
        f"echo $code > {shlex.quote(step.ended)}\n"
        "exit $code\n"
    )


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _escaped(text: str) -> str:
    """A value in a ninja file. A newline cannot be written in one; paths with newlines are refused before this."""
    return text.replace("$", "$$").replace("\n", " ")
