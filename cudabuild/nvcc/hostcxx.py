"""This module chooses the host C++ compiler that nvcc calls, and explains nvcc's refusal of one."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from cudabuild.errors import ConfigError, ToolchainError
from cudabuild.host import Environment, run, search_path
from cudabuild.nvcc.find import CACHING_WRAPPERS
from cudabuild.nvcc.quoting import refuse, refuse_program

_SETTING = "the `host-compiler` setting"
_WRAPPERS = CACHING_WRAPPERS | {"distcc", "icecc"}
_CCBIN = re.compile(r"(?:-ccbin|--compiler-bindir)(?:=(.*))?", re.DOTALL)
_NOT_USABLE = re.compile(r"Failed to preprocess host compiler properties")
_GCC_TOO_NEW = re.compile(r"unsupported GNU version! gcc versions later than (\d+) are not supported")
_CLANG_UNFIT = re.compile(r"unsupported (?:\w+ )?clang version!.*?less than (\d+)")
_COMPLAINT = re.compile(r"(?:nvcc fatal *: *|#error *-*)(.*?)(?: The nvcc flag '-allow|$)", re.MULTILINE)
_PATIENCE = 10.0
"""Seconds; an answer takes a hundredth of one."""
_MACRO = re.compile(r"#define __(GNUC|GNUC_MINOR|clang_major|clang_minor)__ (\d+)")


class Choice(msgspec.Struct, frozen=True):
    path: str | None
    """What to give to nvcc as -ccbin; None when nvcc finds the compiler itself."""
    origin: str
    compiler: str | None
    """Absolute path of the compiler in either case; None when there is no gcc on PATH."""


def choose(host_compiler: str | None, env: Environment, *, crate_root: str = "", flags: Sequence[str] = ()) -> Choice:
    """The host compiler, by the first that names one: -ccbin among nvcc's own flags, the setting, NVCC_CCBIN, the
    variables of Rust's `cc` crate, and what nvcc does without any: the first gcc on PATH."""
    by_flag = _ccbin_flag(host_compiler, flags, env)
    if by_flag:
        value, origin = by_flag
        return Choice(None, origin, _resolve(value, origin, env, crate_root))
    if host_compiler is not None:
        compiler = _resolve(host_compiler, _SETTING, env, crate_root)
        return Choice(compiler, _SETTING, compiler)
    nvcc_ccbin = env.get("NVCC_CCBIN")
    if nvcc_ccbin == "":
        raise ToolchainError(
            "NVCC_CCBIN is set but empty, which nvcc takes for a compiler's name", "unset NVCC_CCBIN, or name a compiler"
        )
    if nvcc_ccbin is not None:
        return Choice(None, "NVCC_CCBIN", _resolve(nvcc_ccbin, "NVCC_CCBIN", env, crate_root))
    for name in _cxx_variables(env):
        value = (env.get(name) or "").strip()
        if value:
            compiler = _resolve(_single_program(value, name, env, crate_root), name, env, crate_root)
            return Choice(compiler, name, compiler)
    return Choice(None, "PATH", next(iter(search_path("gcc", env.peek("PATH"))), None))


def _ccbin_flag(host_compiler: str | None, flags: Sequence[str], env: Environment) -> tuple[str, str] | None:
    """The -ccbin that wins inside nvcc (its last) and where it came from. Ours would stand before `flags`, and would only
    make nvcc warn about two."""
    places: list[tuple[str, Sequence[str]]] = [
        ("NVCC_APPEND_FLAGS", _words(env.get("NVCC_APPEND_FLAGS"))),
        ("`flags`", flags),
    ]
    if host_compiler is None:
        places.append(("NVCC_PREPEND_FLAGS", _words(env.get("NVCC_PREPEND_FLAGS"))))
    for origin, words in places:
        for index in reversed(range(len(words))):
            match = _CCBIN.fullmatch(words[index])
            if match:
                value = match[1] if match[1] is not None else next(iter(words[index + 1 : index + 2]), "")
                return value, f"-ccbin in {origin}"
    return None


def _words(flags: str | None) -> list[str]:
    try:
        return shlex.split(flags or "")
    except ValueError:
        return (flags or "").split()


def _cxx_variables(env: Environment) -> Iterator[str]:
    """The names that Rust's `cc` crate reads for the C++ compiler, in its order, so that both compile with the same one."""
    target, host = env.peek("TARGET"), env.peek("HOST")
    if target:
        yield f"CXX_{target}"
        yield "CXX_" + re.sub(r"[-.]", "_", target)
    yield "HOST_CXX" if target == host else "TARGET_CXX"
    yield "CXX"


def _single_program(value: str, origin: str, env: Environment, crate_root: str) -> str:
    """The compiler in a variable that may hold `ccache g++`. The prefix is dropped: nvcc can call one program only, and
    cudabuild itself knows what need not be compiled."""
    if _find(value, env, crate_root):
        return value  # a path may hold spaces
    words = value.split()
    if os.path.basename(words[0]) in _WRAPPERS:
        words = words[1:]
    if len(words) != 1:
        problem = f"has arguments after the compiler: {' '.join(words[1:])}" if words else "names no compiler"
        raise ConfigError(
            f"{origin} is {value!r}, which {problem}; nvcc takes a program alone",
            "set `host-compiler` in cudabuild.toml (it comes before CXX), and give arguments in `host-flags`",
        )
    return words[0]


def _resolve(value: str, origin: str, env: Environment, crate_root: str) -> str:
    refuse("tool", value, origin)
    compiler = _find(value, env, crate_root)
    if compiler is None:
        place = "is not an executable file" if os.sep in value else "is not on PATH"
        raise ToolchainError(f"the host compiler {value!r}, from {origin}, {place}", _cure(env, "g++", None))
    refuse_program(compiler, origin)
    return compiler


def _find(value: str, env: Environment, crate_root: str) -> str | None:
    if os.sep not in value:
        return next(iter(search_path(value, env.peek("PATH"))), None)
    path = os.path.abspath(os.path.join(crate_root, value))
    if os.path.isdir(path):
        path = os.path.join(path, "gcc")  # what nvcc takes from a folder
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None


def explain_refusal(stderr: str, compiler: str | None, origin: str, env: Environment) -> ToolchainError | None:
    """The error for a dry run or a compile that failed because nvcc does not take the host compiler; None for any other.

    A missing or broken compiler already fails the dry run. One of an unsupported version passes it: that is an #error in
    the toolkit's headers, met by the first preprocessor pass of every unit.
    """
    gcc, clang = _GCC_TOO_NEW.search(stderr), _CLANG_UNFIT.search(stderr)
    if gcc:
        family, limit = "g++", int(gcc[1])
    elif clang:
        family, limit = "clang++", int(clang[1]) - 1
    elif _NOT_USABLE.search(stderr):
        family, limit = "g++", None
    else:
        return None
    named_version = version(compiler, env) if compiler else None
    named = f"{compiler or 'gcc'} ({named_version + ', ' if named_version else ''}from {origin})"
    accepted = f"it takes {family} up to {limit}" if limit else "it cannot run it as a C++ compiler"
    return ToolchainError(
        f"nvcc refuses the host compiler {named}: {accepted}\n  nvcc says: {_complaint(stderr)}", _cure(env, family, limit)
    )


def _complaint(stderr: str) -> str:
    """nvcc's own line, and what the system said before it; without its advice to switch the check off."""
    lines = [match[1].strip() for match in _COMPLAINT.finditer(stderr)]
    missing = [line for line in stderr.splitlines() if line.endswith("No such file or directory")]
    return "; ".join([*missing[:1], *lines[:1]])


def version(compiler: str, env: Environment) -> str | None:
    """What the compiler's macros say, for nvcc goes by these; None when it does not say them."""
    try:
        result = run([compiler, "-E", "-dM", "-x", "c++", os.devnull], env=env.copy(), timeout=_PATIENCE)
    except OSError:
        return None
    macros = dict(_MACRO.findall(result.stdout))
    if "clang_major" in macros:
        return f"clang {macros['clang_major']}.{macros.get('clang_minor', 0)}"
    return f"gcc {macros['GNUC']}.{macros.get('GNUC_MINOR', 0)}" if "GNUC" in macros else None


def _cure(env: Environment, family: str, limit: int | None) -> str:
    fitting = ", ".join(_on_path(family, limit, env))
    bound = f" up to {limit}" if limit else ""
    choices = f"PATH has {fitting}" if fitting else f"PATH has no {family}-<version>{bound}, so install one"
    return f"choose another with `host-compiler` in cudabuild.toml or NVCC_CCBIN; {choices}"


def _on_path(family: str, limit: int | None, env: Environment) -> Iterator[str]:
    """Compilers that carry their version in their name, newest first, and are old enough."""
    pattern = re.compile(re.escape(family) + r"-(\d+)")
    versions: dict[int, str] = {}
    for folder in (env.peek("PATH") or "").split(os.pathsep):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = pattern.fullmatch(name)
            if match and (limit is None or int(match[1]) <= limit):
                versions.setdefault(int(match[1]), os.path.join(folder, name))
    yield from (versions[version] for version in sorted(versions, reverse=True))
