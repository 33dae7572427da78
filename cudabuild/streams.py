"""This module is the door to stdout and stderr, which may be closed or full."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from cudabuild.errors import CudabuildError


class OutputLost(CudabuildError):
    """What a command has to say cannot be written; what it did stays done."""


class _Stdout(io.RawIOBase):
    """Python would show its traceback for a full disk, and once more when it ends."""

    def fileno(self) -> int:
        return 1

    def isatty(self) -> bool:
        return os.isatty(1)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        try:
            return os.write(1, data)
        except BrokenPipeError:
            raise
        except OSError as error:
            give_up_stdout()
            raise OutputLost(f"stdout cannot be written: {error.strerror}", "what was built stays in place") from error


def prepare() -> None:
    """Have all three streams. One that is closed would be the number of the next file that we open, and what is printed to it
    would land there; a closed stdout then refuses what is written to it, as a full one does."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until we end)
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout()), encoding=before.encoding if before else "utf-8",
        errors=before.errors if before else "strict", line_buffering=os.isatty(1),
    )  # fmt: skip


def give_up_stdout() -> None:
    """Python writes what is left when it ends: to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
