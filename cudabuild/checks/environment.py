"""This module checks the variables that change builds without being seen in any file of the project."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cudabuild.checks.finding import Finding, Seen
from cudabuild.host import SIDE_FILES
from cudabuild.nvcc.arguments import ENVIRONMENT

_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


def environment(seen: Seen) -> Iterator[Finding]:
    env = seen.env
    given = [f"{name}={value!r}" for name in ENVIRONMENT if (value := env.peek(name))]
    for text in given:
        yield Finding("environment", "note", "environment", f"{text} takes part in every compile")
    for name in SIDE_FILES:
        if env.peek(name):
            yield Finding("environment", "note", "environment", f"{name} is set; it is kept from the compilers")
    for name in _SEARCHED:
        value = env.peek(name)
        if value and "" in value.split(os.pathsep):
            problem = f"{name} is {value!r}: an empty element means the current folder, whichever that is"
            yield Finding(
                "search-path", "warning", "environment", "", problem, f"remove the stray `{os.pathsep}` from {name}"
            )
    temporary = env.peek("TMPDIR")
    if temporary and not (os.path.isdir(temporary) and os.access(temporary, os.W_OK)):
        state = "is not a folder that can be written" if os.path.exists(temporary) else "does not exist"
        problem = f"TMPDIR is {temporary!r}, which {state}: neither nvcc nor rustc's linker runs so"
        yield Finding("tmpdir", "error", "environment", "", problem, "make that folder, or unset TMPDIR")
    if not given:
        yield Finding("environment", "ok", "environment", "nothing set that changes compiles")
