"""This module runs ninja, tells what it does, and leaves no process behind.

ninja gives each command a process group of its own and, told to stop, passes the signal to each. nvcc's children (sh, cicc,
ptxas) outlive an nvcc that is killed alone, so whatever is left of ninja's session after a grace period is killed by number.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from cudabuild.errors import Interrupted, ToolchainError
from cudabuild.host import search_path
from cudabuild.ninja.limit import Limit

if TYPE_CHECKING:
    import subprocess

_GRACE_SECONDS = 3.0
_PROGRESS = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")

Progress = Callable[[int, int, str], None]


def find_ninja(path: str | None) -> str:
    """The ninja of the `ninja` package, which speaks cargo's pipe jobserver as upstream's does not; else the one on PATH."""
    try:
        import ninja
    except ImportError:
        packaged = None
    else:
        packaged = os.path.join(ninja.BIN_DIR, "ninja")
    if packaged and os.access(packaged, os.X_OK):
        return packaged
    for found in search_path("ninja", path):
        return found
    raise ToolchainError("ninja is not installed", "pip install 'ninja>=1.13'")


def run_ninja(
    ninja: str, build_file: str, *, cwd: str, env: Mapping[str, str], limit: Limit, progress: Progress
) -> str:
    """Run every step of `build_file`, those after a failed one too. Returns ninja's own words, which matter only when it could
    not start; raises Interrupted after SIGINT, SIGTERM or SIGHUP, when every process has ended."""
    import subprocess

    child = {**env, "NINJA_STATUS": "[%f/%t] "}
    argv = [ninja, "-f", build_file, "-k", "0"]
    if limit.jobserver is None:
        child.pop("MAKEFLAGS", None)
        argv += ["-j", str(limit.jobs)]
    else:
        child["MAKEFLAGS"] = limit.jobserver.makeflags
    words: list[str] = []
    with _stopping() as received:
        process = subprocess.Popen(
            argv, cwd=cwd, env=child, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True, pass_fds=limit.jobserver.descriptors if limit.jobserver else (),
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - a build starts no thread
        )  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                match = _PROGRESS.match(line)
                if match:
                    progress(int(match[1]), int(match[2]), match[3].rstrip())
                else:
                    words.append(line)
            process.wait()
        finally:
            if process.poll() is None:
                _stop(process, received[0] if received else signal.SIGINT)
            _end_session(process.pid)
            if process.stdout is not None:
                process.stdout.close()  # not before: ninja must not die of a broken pipe with its commands running
    if received:
        raise Interrupted(received[0])
    return "".join(words)


class _Stop(Exception):
    """Leaves the wait for ninja when a signal came."""


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """While ninja runs, the first signal to us leaves the block instead of ending us, and is kept in the list. What we were
    started to ignore (SIGHUP under nohup) stays ignored."""
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if not received:
            received.append(number)
            raise _Stop

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield received
    except _Stop:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before exec so that it gets SIGTERM when we are killed outright; Linux only."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    parent_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
    return lambda: prctl(parent_death_signal, signal.SIGTERM) and None


def _stop(process: subprocess.Popen[str], number: int) -> None:
    """ninja hands the signal on to its commands and waits for them; what does not heed it gets no more than the grace."""
    process.send_signal(number)
    end = time.monotonic() + _GRACE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    process.kill()
    process.wait()


def _end_session(session: int) -> None:
    for pid in _session_members(session):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _session_members(session: int) -> list[int]:
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                members.append(int(entry))
    return members
