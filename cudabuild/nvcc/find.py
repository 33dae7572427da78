"""This module finds nvcc: every place it may be in, in the order of their say.

What the user names (the `toolkit` setting, NVCC, CUDACXX, CUDA_HOME, CUDA_PATH) decides, and is an error when it cannot be
used: a build with another toolkit than the one asked for is worse than none. After that come PATH and the usual folders.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

import msgspec

from cudabuild.errors import ToolchainError
from cudabuild.host import Environment, search_path

CACHING_WRAPPERS = frozenset({"buildcache", "ccache", "cachepot", "sccache"})

_SETTING = "the `toolkit` setting"
_TOOLKIT_FOLDER = re.compile(r"cuda-(\d+(?:\.\d+)*)")
_WHEEL_FOLDER = re.compile(r"cu(\d+)")
_SCRIPT_LIMIT = 4096


class Candidate(msgspec.Struct, frozen=True):
    """A place where nvcc was looked for."""

    nvcc: str
    """Absolute path, empty when the place leads to none. The toolkit's files follow from what this nvcc says in a dry run,
    never from the path: it may be a wrapper script."""
    origin: str
    problem: str | None = None
    """Why this nvcc cannot be used, as the end of a sentence; None when it can."""
    value: str | None = None
    """What the user wrote, when the user chose this place."""
    notes: tuple[str, ...] = ()
    """Warnings about other choices that disagree, on the one that `find` returns."""

    def __str__(self) -> str:
        if self.value is not None:
            return f"{self.origin} is {self.value!r}, which {self.problem}" if self.value else f"{self.origin} is empty"
        return " ".join(filter(None, (self.origin + (":" if self.nvcc else ""), self.nvcc, self.problem)))


def find(
    toolkit: str | None, env: Environment, *, crate_root: str = "", system_root: str = "/",
    python_path: Sequence[str] | None = None,
) -> Candidate:  # fmt: skip
    """The nvcc to use; a ToolchainError when the user's choice cannot be used, or when there is none at all.

    Relative choices start at `crate_root`; `system_root` and `python_path` are for tests.
    """
    looked: list[Candidate] = []
    for candidate in candidates(toolkit, env, crate_root=crate_root, system_root=system_root, python_path=python_path):
        if candidate.problem is None:
            notes = tuple(_notes(candidate, toolkit, env, crate_root))
            return msgspec.structs.replace(candidate, notes=notes)
        if candidate.value:
            raise ToolchainError(str(candidate), _explicit_hint(candidate))
        looked.append(candidate)
    env.get("PATH")  # now it does decide: a PATH that holds nvcc must make cargo ask again
    places = "".join(f"\n  {candidate}" for candidate in looked)
    raise ToolchainError(
        f"no nvcc was found; looked at{places}",
        "install the CUDA toolkit and put its bin folder on PATH; or set CUDA_HOME, or `toolkit` in cudabuild.toml, to its "
        "root folder; or, without any CUDA on the machine, `pip install 'cudabuild[cuda13]'`",
    )


def candidates(
    toolkit: str | None, env: Environment, *, crate_root: str = "", system_root: str = "/",
    python_path: Sequence[str] | None = None,
) -> Iterator[Candidate]:  # fmt: skip
    """Every place in the order of their say, each looked at when it is asked for."""
    yield from _chosen_by_user(toolkit, env, crate_root)
    yield _on_path(env)
    yield from _usual_folders(system_root)
    for nvcc in ("usr/bin/nvcc", "usr/lib/nvidia-cuda-toolkit/bin/nvcc"):
        yield _file(os.path.join(system_root, nvcc), "Debian")
    conda = env.get("CONDA_PREFIX")
    yield _file(os.path.join(conda, "bin", "nvcc"), "CONDA_PREFIX") if conda else _unset("CONDA_PREFIX")
    yield from _python_packages(sys.path if python_path is None else python_path)


def _chosen_by_user(toolkit: str | None, env: Environment, crate_root: str) -> Iterator[Candidate]:
    if toolkit is not None:
        path = os.path.join(crate_root, toolkit)
        yield _nvcc(toolkit, _SETTING, path) if os.path.isfile(path) else _root(toolkit, _SETTING, path)
    for name in ("NVCC", "CUDACXX"):
        value = env.get(name)
        if not value:
            yield _unset(name, value)
        elif os.sep in value:
            yield _nvcc(value, name, os.path.join(crate_root, value))
        else:
            on_path = search_path(value, env.peek("PATH"))
            yield _nvcc(value, name, on_path[0]) if on_path else Candidate("", name, _misspelt("is not on PATH", value), value)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        value = env.get(name)
        yield _root(value, name, os.path.join(crate_root, value)) if value else _unset(name, value)


def _unset(name: str, value: str | None = None) -> Candidate:
    return Candidate("", name, "is not set" if value is None else "is empty", value)


def _root(value: str, origin: str, path: str) -> Candidate:
    if not value:
        return _unset(origin, value)
    if not os.path.isdir(path):
        return Candidate("", origin, _misspelt("is not a folder" if os.path.exists(path) else "does not exist", value), value)
    found = _file(os.path.join(path, "bin", "nvcc"), origin)
    problem = found.problem and f"has no usable nvcc: {found.nvcc} {found.problem}"
    return Candidate(found.nvcc, origin, problem, value)


def _nvcc(value: str, origin: str, path: str) -> Candidate:
    found = _file(path, origin)
    return Candidate(found.nvcc, origin, found.problem and _misspelt(found.problem, value), value)


def _misspelt(problem: str, value: str) -> str:
    """The problem, with the usual slip that explains it."""
    if value != value.strip():
        return f"{problem} (mind the white space at its end)" if value == value.lstrip() else f"{problem} (mind the white space)"
    if os.pathsep in value:
        return f"{problem} (it looks like a list; name one)"
    if " " in value:
        return f"{problem} (arguments cannot be given here)"
    return problem


def _file(path: str, origin: str) -> Candidate:
    nvcc = os.path.abspath(path)
    real = os.path.realpath(nvcc)
    if not os.path.exists(nvcc):
        return Candidate(nvcc, origin, "does not exist")
    if not os.path.isfile(nvcc):
        return Candidate(nvcc, origin, "is not a file")
    if not os.access(nvcc, os.X_OK):
        return Candidate(nvcc, origin, "is not executable")
    if os.path.basename(real) in CACHING_WRAPPERS:
        # cudabuild decides what is compiled; a second cache behind it has hits of its own.
        return Candidate(nvcc, origin, f"is a link to {os.path.basename(real)}, not an nvcc")
    if not _has_profile(nvcc) and _has_profile(real):
        nvcc = real  # nvcc reads nvcc.profile beside the name it is called by, and does not follow links
    return Candidate(nvcc, origin)


def _has_profile(nvcc: str) -> bool:
    return os.path.isfile(os.path.join(os.path.dirname(nvcc), "nvcc.profile"))


def _on_path(env: Environment) -> Candidate:
    """PATH's first nvcc that is not a compiler cache in disguise."""
    found = [_file(path, "PATH") for path in search_path("nvcc", env.peek("PATH"))]
    usable = (candidate for candidate in found if candidate.problem is None)
    return next(usable, found[0] if found else Candidate("", "PATH", "has no nvcc"))


def _usual_folders(system_root: str) -> Iterator[Candidate]:
    for base in ("usr/local", "opt"):
        folder = os.path.join(system_root, base)
        for name in ("cuda", *_newest_first(folder, _TOOLKIT_FOLDER)):
            yield _file(os.path.join(folder, name, "bin", "nvcc"), os.path.join(os.sep, base))


def _python_packages(python_path: Sequence[str]) -> Iterator[Candidate]:
    """nvcc in NVIDIA's wheels. They put it in nvidia/cuNN/bin of the import path and nowhere else; looking there takes
    microseconds, importlib.metadata takes tens of milliseconds."""
    origin = "Python package nvidia-cuda-nvcc"
    folders = [os.path.join(entry or ".", "nvidia") for entry in python_path]
    wheels = [os.path.join(folder, name) for folder in folders for name in _newest_first(folder, _WHEEL_FOLDER)]
    nvccs = [nvcc for nvcc in (os.path.join(wheel, "bin", "nvcc") for wheel in wheels) if os.path.exists(nvcc)]
    if not nvccs:
        yield Candidate("", origin, "is not installed beside cudabuild")
    for nvcc in nvccs:
        yield _file(nvcc, origin)


def _newest_first(folder: str, pattern: re.Pattern[str]) -> list[str]:
    """The folder's entries that match, by the version in their name: 12.10 before 12.9."""
    try:
        matches = filter(None, map(pattern.fullmatch, os.listdir(folder)))
    except OSError:
        return []
    by_version = sorted(matches, key=lambda match: [int(part) for part in match[1].split(".")], reverse=True)
    return [match[0] for match in by_version]


def _notes(chosen: Candidate, toolkit: str | None, env: Environment, crate_root: str) -> Iterator[str]:
    others = [other for other in _chosen_by_user(toolkit, env, crate_root) if other.origin != chosen.origin]
    if chosen.value is not None and chosen.origin != _SETTING:  # what a file of the project says needs no word about PATH
        others.append(_on_path(env))
    for other in others:
        if other.value == "":
            yield f"{other.origin} is set but empty: taken as unset"
        elif other.problem is None and not same_tool(chosen.nvcc, other.nvcc):
            yield f"nvcc is {chosen.nvcc}, from {chosen.origin}; {other.origin} leads to another one, {other.nvcc}"
        elif other.problem is not None and other.value is not None:
            yield f"{other}; it is not used, for {chosen.origin} comes first"


def same_tool(one: str, other: str) -> bool:
    """Whether two paths are one file, or one is a script that calls the other."""
    ends = os.path.realpath(one), os.path.realpath(other)
    return ends[0] == ends[1] or _calls(ends[0], {other, ends[1]}) or _calls(ends[1], {one, ends[0]})


def _calls(script: str, programs: set[str]) -> bool:
    try:
        with open(script, "rb") as stream:
            text = stream.read(_SCRIPT_LIMIT)
    except OSError:
        return False
    return text.startswith(b"#!") and any(os.fsencode(program) in text for program in programs)


def _explicit_hint(candidate: Candidate) -> str:
    if candidate.origin in ("NVCC", "CUDACXX"):
        return f"set {candidate.origin} to the path of an nvcc, or unset it"
    if candidate.origin == _SETTING:
        return "`toolkit` (or --toolkit) is a toolkit's root folder, the one that holds bin/nvcc, or an nvcc"
    return f"set {candidate.origin} to a toolkit's root folder, the one that holds bin/nvcc, or unset it"
