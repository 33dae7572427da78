"""This module is the tree of errors that a user can meet, and the exit code of each.

CudabuildError
├── BuildFailed       1   a compiler or archiver step failed
├── ConfigError       2   the user's file, flag or variable is wrong
├── ToolchainError    3   nvcc, the host compiler, ninja or ar is missing or unfit
├── InputsChanged     4   files kept changing while they were being compiled
└── Interrupted     130   SIGINT (143 after SIGTERM)

Trouble with caches is not here: it never fails a build. Anything else that escapes is a bug of ours and shows its traceback.
"""

from __future__ import annotations


class CudabuildError(Exception):
    """Says what is wrong, with which thing, and what to do next; prints as one paragraph."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class BuildFailed(CudabuildError):
    """A step of the build failed; the step's own output has been shown before this is raised."""


class ConfigError(CudabuildError):
    exit_code = 2


class ToolchainError(CudabuildError):
    exit_code = 3


class InputsChanged(CudabuildError):
    exit_code = 4


class Interrupted(CudabuildError):
    """The user's SIGINT or SIGTERM; the exit code is 128 + the signal's number."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted; nothing of the unfinished work is kept")
        self.exit_code = 128 + signal_number
