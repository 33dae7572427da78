"""This module is the door to the environment and to other processes."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from cudabuild.errors import ConfigError, Interrupted
from cudabuild.files import is_utf8

if TYPE_CHECKING:
    import subprocess

SIDE_FILES = ("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES")  # read by gcc


class Environment:
    """The variables of this process, and which of them were asked for.

    Cargo reruns a build script only for variables that it announced, so every read goes through `get`, and the names that
    were read, set or not, become rerun-if-env-changed lines.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)
        self._names_read: set[str] = set()

    def get(self, name: str) -> str | None:
        """The value, or None when unset; the name is remembered. Records, reports and cargo's lines can hold UTF-8 only."""
        self._names_read.add(name)
        value = self._variables.get(name)
        if value is not None and not is_utf8(value):
            raise ConfigError(f"the variable {name} is not UTF-8: {value!r}", f"unset {name}, or rename what it names")
        return value

    def peek(self, name: str) -> str | None:
        """The value without remembering the name: for what cargo sets itself (OUT_DIR, CARGO_*) and for PATH.

        PATH differs between shells, editors and CI steps that mean the same tools; announcing it makes cargo rerun for
        nothing. What was found through it is announced as files instead.
        """
        return self._variables.get(name)

    @property
    def names_read(self) -> frozenset[str]:
        return frozenset(self._names_read)

    def copy(self) -> dict[str, str]:
        """The variables for a child process: all but those that make a compiler write files that nobody asked for."""
        return {name: value for name, value in self._variables.items() if name not in SIDE_FILES}


def end_in_order() -> None:
    """Let a signal that ends this process raise Interrupted, so that what is being waited for ends too; a second one ends us at
    once. SIGINT is Python's KeyboardInterrupt already; what we were started to ignore stays ignored."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Interrupted(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, interrupt)


def run(
    argv: list[str], *, env: Mapping[str, str], cwd: str | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a short tool to its end and capture what it prints; OSError when it cannot be started.

    One that takes longer than `timeout` seconds is killed with all that it started: TimeoutError, an OSError too. So is one
    that is waited for when a signal ends us.
    """
    import subprocess  # 20 ms that a build with nothing to do does not pay

    with subprocess.Popen(
        argv, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="surrogateescape", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException as error:
            # A script that is killed alone leaves its children behind, and they hold the pipes open.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(errno.ETIMEDOUT, f"gave no answer in {timeout:g} s", argv[0]) from None
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def search_path(name: str, path: str | None) -> list[str]:
    """Every executable file of that name on PATH, in PATH's order."""
    found = []
    for folder in (path or os.defpath).split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            found.append(os.path.abspath(candidate))
    return found
