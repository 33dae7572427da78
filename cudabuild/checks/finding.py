"""This module is what a check says, and what the checks before it have seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from cudabuild.cargo.places import Places
from cudabuild.config.schema import BuildConfig
from cudabuild.errors import ToolchainError
from cudabuild.host import Environment, run
from cudabuild.nvcc.archs import Arch
from cudabuild.nvcc.dryrun import DryRun
from cudabuild.nvcc.find import Candidate
from cudabuild.nvcc.hostcxx import Choice

Severity = Literal["ok", "note", "warning", "error"]


class Finding(msgspec.Struct, frozen=True):
    """`note` is worth knowing and needs no cure; after a `warning` builds run, after an `error` none does."""

    id: str
    severity: Severity
    subject: str
    found: str = ""
    """What, and from where."""
    problem: str = ""
    cure: str = ""


class Gpus(msgspec.Struct, frozen=True):
    """What the driver says of this machine's GPUs; `problem` says why it says nothing."""

    names: tuple[tuple[str, str], ...] = ()
    """Name and compute capability, as in ("NVIDIA H200", "9.0")."""
    driver: str = ""
    cuda: str = ""
    """The newest CUDA that the driver knows, as in "13.0"."""
    problem: str = ""
    broken: bool = False
    """Whether there is a driver, but it does not work."""

    def numbers(self) -> tuple[str, ...]:
        """The architectures, as `arch` has them."""
        return tuple(dict.fromkeys(capability.replace(".", "") for _, capability in self.names))


class Seen:
    """What the checks have seen so far. One that fails leaves its part as it is, and those that need it say nothing."""

    def __init__(self, env: Environment, cwd: str, scratch: str, gpus: Callable[[], Gpus], patience: float) -> None:
        self.env = env
        self.cwd = cwd
        self.scratch = scratch
        """An empty folder for what a check makes."""
        self.gpus = gpus
        self.patience = patience
        """Seconds for a tool to answer."""
        self.places: Places | None = None
        self.config: BuildConfig | None = None
        self.nvcc: Candidate | None = None
        self.version = ""
        self.available: tuple[str, ...] = ()
        """The numbers of the architectures that nvcc can build for."""
        self.host: Choice | None = None
        self.plan: DryRun | None = None
        """nvcc's dry run; None unless it takes the host compiler."""
        self.complete = False
        """Whether the toolkit has all its parts, and they fit together."""
        self.archs: tuple[Arch, ...] = ()
        """Those that the crate is built for."""

    @property
    def crate_root(self) -> str:
        return self.config.crate_root if self.config else ""

    def child(self) -> dict[str, str]:
        """The environment for nvcc. As in a build, its temporary files have a folder of their own."""
        return {**self.env.copy(), "TMPDIR": self.scratch}


def first_line(argv: list[str], seen: Seen) -> str:
    """The first line that a tool prints; ToolchainError when it fails, OSError when it cannot be started or hangs."""
    done = run(argv, env=seen.env.copy(), timeout=seen.patience)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise ToolchainError(
            f"`{' '.join(argv)}` failed with exit code {done.returncode}: {said or '(it says nothing)'}"
        )
    return next(iter(done.stdout.splitlines()), "")


def release(version: str) -> tuple[int, ...]:
    """13.0.88 and 13.0.96 are parts of one release, (13, 0)."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
