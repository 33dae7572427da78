"""This module reads cargo's job limit, so that nvcc processes count among cargo's jobs.

Cargo gives a build script its jobserver in CARGO_MAKEFLAGS (`-j --jobserver-fds=6,7 --jobserver-auth=6,7`, or `fifo:PATH`), and
leaves MAKEFLAGS unset. PyPI's ninja takes both kinds from MAKEFLAGS, but not cargo's fifo text as it stands (it trips over
`--jobserver-fds=fifo:`), and the pipe's two descriptors have to stay open in it.
"""

from __future__ import annotations

import os
import re
import stat

import msgspec

from cudabuild.host import Environment


class Jobserver(msgspec.Struct, frozen=True):
    """MAKEFLAGS for ninja, and the descriptors that it must inherit."""

    makeflags: str
    descriptors: tuple[int, ...]


def find(env: Environment) -> Jobserver | None:
    """The jobserver of the cargo or make above us, if it is usable."""
    for name in ("CARGO_MAKEFLAGS", "MAKEFLAGS"):
        match = re.search(r"--jobserver-(?:auth|fds)=(\S+)", env.peek(name) or "")
        if match is None:
            continue
        value = match[1]
        if value.startswith("fifo:"):
            if _is_pipe(value[5:]):
                return Jobserver(f" -j --jobserver-auth={value}", ())
            continue
        pipe = re.fullmatch(r"(\d+),(\d+)", value)
        if pipe is not None and all(_is_pipe(int(number)) for number in pipe.groups()):
            return Jobserver(f" -j --jobserver-auth={value}", (int(pipe[1]), int(pipe[2])))
    return None


def _is_pipe(place: int | str) -> bool:
    """Whether a descriptor or path leads to a pipe. Where the jobserver was not handed on, its descriptors' numbers may be taken
    by other files."""
    try:
        return stat.S_ISFIFO(os.stat(place).st_mode)
    except (OSError, OverflowError):
        return False
