"""This module reads what `nvcc --dryrun` prints: the toolkit's own account of its folders, and the commands it would run.

nvcc writes to stderr, each line after `#$ `: first `NAME=value`, the variables its steps run under (values are raw, to the
line's end), then the steps as sh commands. A toolkit's layout is taken from here and never guessed from nvcc's path.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Literal

import msgspec

from cudabuild.errors import ToolchainError

_MARK = "#$ "
_FILTER_DEPENDENCIES = "-- Filter Dependencies --"
"""Not a command: nvcc merges the depfiles of its passes itself."""
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_REDIRECTION = re.compile(r"\s+> \S.*_stdout 2>.*_stderr\s*$")
"""With -t N nvcc gathers each step's output in files whose names differ from run to run."""
_TEMPORARY_FOLDER = re.compile(r'-o "([^"]*/)tmpxft_')
_TEMPORARY_NAME = re.compile(r"tmpxft_[0-9a-f]+_[0-9a-f]+")

_RUNTIME_HEADER = "cuda_runtime.h"
"""nvcc itself forces this one into every CUDA source."""
_FORCED_HEADER = re.compile(r'-include "cuda_runtime\.h"')
_LAST_OUTPUT = re.compile(r'"[^"]*" -o "[^"]*"\s*$')

DirKind = Literal["quote", "user", "system", "after"]
_INCLUDE_OPTIONS: dict[str, DirKind] = {
    "-iquote": "quote", "-I": "user", "-isystem": "system", "-idirafter": "after",
}
_SEARCH_ORDER: tuple[DirKind, ...] = ("quote", "user", "system", "after")
_OTHER_OPTIONS_WITH_VALUE = frozenset({"-D", "-U", "-x", "-o", "-include", "-imacros"})


class DryRun(msgspec.Struct, frozen=True):
    variables: dict[str, str]
    commands: tuple[str, ...]
    """In nvcc's order, as it quotes them for sh."""


class IncludeDir(msgspec.Struct, frozen=True):
    path: str
    """As on the command line; a relative one starts where nvcc is run."""
    kind: DirKind
    """Which includes search it, and when: `quote` (-iquote, only #include "..."), `user` (-I), `system` (-isystem), then
    the compiler's own folders, then `after` (-idirafter)."""


def parse(stderr: str) -> DryRun:
    variables: dict[str, str] = {}
    commands: list[str] = []
    for line in stderr.split("\n"):
        if not line.startswith(_MARK):
            continue
        text = line[len(_MARK) :]
        variable = None if commands else _VARIABLE.fullmatch(text)
        if variable:
            variables[variable[1]] = variable[2]  # a later line overrides: _TARGET_SIZE_ is printed twice
        elif not text.startswith(_FILTER_DEPENDENCIES):
            commands.append(_REDIRECTION.sub("", text).rstrip())
    return DryRun(variables, tuple(commands))


def host_compiler(dryrun: DryRun) -> str:
    """The host compiler as nvcc calls it: a path, or a name that it takes from PATH."""
    return _preprocess(dryrun)[0]


def host_check(dryrun: DryRun) -> str | None:
    """A sh command that fails, in milliseconds, when the toolkit's headers do not support the host compiler's version.

    A dry run does not look at these headers; without this check every unit of a build meets the same #error.
    """
    for command in dryrun.commands:
        check = _FORCED_HEADER.sub('-include "crt/host_config.h"', command)
        if check != command:
            return _LAST_OUTPUT.sub('"/dev/null" -o "/dev/null"', check)
    return None


def include_dirs(dryrun: DryRun) -> tuple[IncludeDir, ...]:
    """Every folder that the command line makes the preprocessor search, the user's and the toolkit's, in search order."""
    found = [IncludeDir(value, _INCLUDE_OPTIONS[name]) for name, value in _options(dryrun) if name in _INCLUDE_OPTIONS]
    return tuple(sorted(found, key=lambda entry: _SEARCH_ORDER.index(entry.kind)))


def forces_includes(dryrun: DryRun) -> bool:
    """Whether the user's flags force a header in (-include): its name is looked for in the current folder first."""
    return any(name in ("-include", "-imacros") and value != _RUNTIME_HEADER for name, value in _options(dryrun))


def host_flags(dryrun: DryRun) -> tuple[str, ...]:
    """The host compiler's other arguments (-std, -m64, -fPIC, -march...): what decides its built-in macros and folders.

    Left out: -E, what include_dirs returns, macros, forced includes, the input and the output.
    """
    options = _options(dryrun)
    output = max((index for index, (name, _) in enumerate(options) if name == "-o"), default=len(options))
    before_input = options[: output - 1]  # nvcc ends every preprocessor command with the input and -o
    return tuple(word for name, word in before_input if not name and word != "-E")


def library_dirs(dryrun: DryRun) -> tuple[str, ...]:
    """The folders where this nvcc makes the linker look, existing or not, symlinks resolved; those named `stubs` hold stand-ins
    for the driver, which no program may load."""
    words = shlex.split(dryrun.variables.get("LIBRARIES", ""))
    return tuple(os.path.realpath(folder) for name, folder in _name_values(words, ("-L",)) if name)


def tool_paths(dryrun: DryRun) -> tuple[tuple[str, str], ...]:
    """(name, path) of the toolkit's files that take part in a compile; the missing ones are left out.

    Links are not followed: what a link leads to tomorrow (/usr/local/cuda is one) is what will run then.
    """
    variables = dryrun.variables
    path = variables.get("PATH", "")
    folders = {
        "nvcc": variables.get("_HERE_", ""),
        "nvcc.profile": variables.get("_HERE_", ""),
        "cicc": variables.get("CICC_PATH", path),  # 12.x has no CICC_PATH and takes cicc from PATH
        "ptxas": path,
        "cudafe++": path,
        "fatbinary": path,
        "nvlink": path,
        "libdevice.10.bc": variables.get("NVVMIR_LIBRARY_DIR", ""),
    }
    candidates = {
        name: [os.path.join(folder, name) for folder in searched.split(os.pathsep) if folder]
        for name, searched in folders.items()
    }
    found = {name: next(filter(os.path.isfile, paths), None) for name, paths in candidates.items()}
    return tuple((name, path) for name, path in found.items() if path)


def command_text(dryrun: DryRun) -> str:
    """All commands, equal for two runs that mean the same: the temporary files lose their folder and process id."""
    text = "\n".join(dryrun.commands)
    folder = _TEMPORARY_FOLDER.search(text)
    if folder:
        text = text.replace(folder[1] + "tmpxft_", "tmpxft_")
    return _TEMPORARY_NAME.sub("tmpxft", text)


def _preprocess(dryrun: DryRun) -> list[str]:
    """The words of the first preprocessor command; all of them get the same folders and host flags."""
    for command in dryrun.commands:
        words = shlex.split(command)
        if "-E" in words:
            return words
    raise ToolchainError(
        "nvcc --dryrun shows no preprocessor command, so this nvcc's dry run is not understood",
        "`nvcc --dryrun -c -x cu /dev/null` should print one `gcc ... -E ...` line; is this nvcc a wrapper that eats it?",
    )


def _options(dryrun: DryRun) -> list[tuple[str, str]]:
    return _name_values(_preprocess(dryrun)[1:], (*_INCLUDE_OPTIONS, *_OTHER_OPTIONS_WITH_VALUE))


def _name_values(words: list[str], options: tuple[str, ...]) -> list[tuple[str, str]]:
    """(option, value) for each of these options, joined or with the value in the next word; ("", word) for the rest."""
    found = []
    rest = iter(words)
    for word in rest:
        name = next((option for option in options if word.startswith(option)), "")
        found.append((name, word[len(name) :] or next(rest, "")) if name else ("", word))
    return found
