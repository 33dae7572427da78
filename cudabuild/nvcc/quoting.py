r"""This module is how a value gets through nvcc unharmed.

nvcc splits the values of list options (-D, -I, -Xcompiler) at commas, takes one level of backslashes and quotes away,
and pastes the rest into command lines for `sh -c`: values of -D in double quotes, with `"` escaped and nothing else;
values of -Xcompiler bare; paths in double quotes, each option with escapes of its own. Unprepared, `$(…)` and
backticks run as commands.

So defines and host flags are written here such that both readers together give back exactly what the user wrote;
paths, of which one cannot say through how many readers they go, may not hold the characters that any of them changes.
Measured alike with nvcc 13.0 and 13.5; tests/nvcc/test_quoting_real.py holds the table against the nvcc at hand.
"""

from __future__ import annotations

import os
import re
from typing import Literal

from cudabuild.errors import ConfigError

PATH_REFUSED = "$`\"',\\"
"""Characters that a source, an include folder or an output folder may not hold: run or replaced by the shell ($ `),
lost between quotes (" '), split at (,), or turned into / in nvcc's dependency files (\\)."""
FLAG_REFUSED = "$`;&|<>()"
"""Characters that a raw flag may not hold: the shell would act on them. Commas, quotes and backslashes are nvcc's own
syntax."""

_ACTIVE_IN_SHELL = re.compile(r"""[\x00-\x20\x7f!"#$&'()*;<>?[\\\]^`{|}~]""")  # all of ASCII but what no shell reads
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
# The crate's absolute path reaches cudafe++ as --orig_src_path_name "…": that name goes into messages only, so a $x
# that the shell replaces does no harm, but what would run a command or end the quotes does.
_CRATE_REFUSED = re.compile(r'[`"\\]|\$[({$]')


_TOOL_REFUSED = re.compile(r'[$`"\\]')


def refuse(kind: Literal["source", "folder", "crate", "tool", "flag"], value: str, where: str) -> None:
    """Raise ConfigError if `value` cannot reach the compilers as it is; `where` is what the message calls it.

    `source`, `folder`: the path of a source, or of an include or output folder, as nvcc is given it. `crate`: the
    folder that nvcc runs in. `tool`: the path of nvcc or of the host compiler, which stands in double quotes in the
    commands that nvcc makes. `flag`: an argument in nvcc's own syntax.
    """
    _refuse_control(value, where)
    if kind in ("source", "folder"):
        if value.startswith("-"):
            raise ConfigError(f"{where}: nvcc takes {value!r} for an option", f"write ./{value}, or rename it")
        if bad := _first_of(PATH_REFUSED, value):
            raise ConfigError(
                f"{where}: {value!r} holds {bad}, which nvcc does not hand on as it is",
                f"rename the file or folder to a path without any of  {' '.join(PATH_REFUSED)}",
            )
    elif kind == "crate":
        if match := _CRATE_REFUSED.search(value):
            raise ConfigError(
                f"{where}: {value!r} holds {match[0]}, which nvcc's shell would act on",
                "move the crate to a folder without it",
            )
    elif kind == "tool":
        if match := _TOOL_REFUSED.search(value):
            raise ConfigError(
                f"{where}: {value!r} holds {match[0]}, which nvcc's shell would act on",
                "install it in a folder without it, or name it by a symlink",
            )
    elif bad := _first_of(FLAG_REFUSED, value):
        raise ConfigError(
            f"{where}: {value!r} holds {bad}, which nvcc's shell would act on",
            "give macros in `define` and host compiler arguments in `host-flags`: they pass every character on",
        )


def refuse_program(path: str, where: str) -> None:
    """Raise ConfigError for a host compiler that nvcc cannot call: it writes its folder in quotes and its name bare."""
    refuse("tool", path, where)
    if match := _ACTIVE_IN_SHELL.search(os.path.basename(path)):
        raise ConfigError(
            f"{where}: the name of {path!r} holds {match[0]}, which nvcc's shell would act on",
            "name it by a symlink without it",
        )


def define_argument(value: str, where: str) -> str:
    """The one argument that defines `NAME` or `NAME=VALUE` with exactly that value."""
    _refuse_control(value, where)
    return "-D" + _for_nvcc(re.sub(r"[\\$`]", r"\\\g<0>", value))


def host_arguments(value: str, where: str) -> tuple[str, str]:
    """The arguments that hand `value`, as one argument, to the host compiler."""
    _refuse_control(value, where)
    return "-Xcompiler", _for_nvcc(_ACTIVE_IN_SHELL.sub(r"\\\g<0>", value))


def _for_nvcc(value: str) -> str:
    """`value` behind nvcc's own reading of backslashes, quotes and commas."""
    return re.sub(r'[\\,"]', r"\\\g<0>", value)


def _refuse_control(value: str, where: str) -> None:
    if control := _CONTROL.search(value):
        raise ConfigError(f"{where}: {value!r} holds {control[0]!r}, a control character or a byte that is not UTF-8", "remove it")


def _first_of(characters: str, value: str) -> str | None:
    return next((character for character in value if character in characters), None)
