"""This module asks nvcc and the host compiler what they would do, and remembers the answers as a Probe.

Folders are asked of nvcc itself (`--dryrun`), never guessed from a path: an nvcc on PATH is often a wrapper script.
"""

from __future__ import annotations

import os
import re

import msgspec

from cudabuild.errors import ConfigError, ToolchainError
from cudabuild.files import Digests, digest_text, within
from cudabuild.host import Environment, run, search_path
from cudabuild.nvcc import arguments, dryrun, find, hostcxx
from cudabuild.nvcc.quoting import refuse
from cudabuild.roots import Roots


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The answers for one set of flags, with the tools that gave them."""

    question: str
    """Digest of all that decides the answers: tools' contents, arguments, environment."""
    version: str
    available: tuple[str, ...]
    host_compiler: str
    tools: tuple[tuple[str, str, str], ...]
    """Role, absolute path and content digest."""
    include_dirs: tuple[str, ...]
    """The folders that are searched for headers, in order, as nvcc spells them; see _search_order."""
    builtin_dirs: tuple[str, ...]
    """Those among them that belong to the toolkit or the host compiler."""
    library_dirs: tuple[str, ...]
    root: str
    commands: str
    direct: bool
    """Whether all of them are programs of the toolkit and the compiler themselves; a script's answer holds for one build."""

    def still_true(self, digests: Digests) -> bool:
        """Whether every tool that answered is what it was."""
        return self.direct and all(digests.of(path) == digest for _, path, digest in self.tools)


def ask(
    question: str, found: find.Candidate, host: hostcxx.Choice, flags: tuple[str, ...], version: str,
    available: tuple[str, ...], env: Environment, roots: Roots, digests: Digests,
) -> Probe:  # fmt: skip
    """Run the dry run once and take from it what a build needs."""
    done = run(list(arguments.probe_command(found.nvcc, flags)), env=environment(env), cwd=roots.crate)
    if done.returncode != 0:
        raise hostcxx.explain_refusal(done.stderr, host.compiler, host.origin, env) or ConfigError(
            f"nvcc {version} at {found.nvcc} refuses the flags of this build: {_complaint(done.stderr)}",
            "check `flags`, `host-flags`, `std` and NVCC_PREPEND_FLAGS, NVCC_APPEND_FLAGS",
        )
    plan = dryrun.parse(done.stderr)
    for name in ("TOP", "_HERE_"):
        refuse("tool", plan.variables.get(name, ""), f"the toolkit of {found.nvcc}")
    driver = _resolve(dryrun.host_compiler(plan), env)
    if driver is None:
        raise ToolchainError(
            f"nvcc's host compiler {dryrun.host_compiler(plan)!r} (from {host.origin}) is not on PATH",
            "install g++, or set `host-compiler` or NVCC_CCBIN",
        )
    _check_host(plan, driver, host, env)
    commands = _logical_commands(plan, plan.variables.get("TOP", ""))
    if not _is_binary(driver):
        commands += _what_it_adds(driver, dryrun.host_flags(plan), env)
    root = os.path.normpath(plan.variables["TOP"]) if os.path.exists(plan.variables.get("TOP", "")) else ""
    spelled_root = plan.variables.get("TOP", "")
    tools = [*dryrun.tool_paths(plan), *_host_tools(driver, env)]
    if os.path.realpath(found.nvcc) not in (os.path.realpath(path) for _, path in tools):
        tools.insert(0, ("nvcc as called", found.nvcc))
    system = _builtin_folders(driver, dryrun.host_flags(plan), env)
    folders = _search_order(plan, system, env)
    toolkit = [folder for folder in folders if root and within(os.path.normpath(folder), root)]
    return Probe(
        question=question, version=version, available=available, host_compiler=driver,
        tools=tuple((role, path, digests.of(path) or "") for role, path in tools),
        include_dirs=folders,
        builtin_dirs=tuple(dict.fromkeys([*toolkit, *(folder for folder in system if folder != "/usr/local/include")])),
        library_dirs=tuple(os.path.normpath(path) for path in dryrun.library_dirs(plan)),
        root=spelled_root,
        commands=digest_text(commands),
        direct=_is_binary(found.nvcc) and _is_binary(driver) and _is_own(found.nvcc, plan),
    )  # fmt: skip


def environment(env: Environment) -> dict[str, str]:
    """The variables for asking nvcc, which fails without a word about TMPDIR when that does not exist; compiles get one of
    their own."""
    folder = env.peek("TMPDIR")
    if folder and not os.path.isdir(folder):
        raise ConfigError(f"TMPDIR is {folder!r}, which is not a folder: nvcc cannot run", "make it, or unset TMPDIR")
    return env.copy()


def _check_host(plan: dryrun.DryRun, driver: str, host: hostcxx.Choice, env: Environment) -> None:
    """Whether the toolkit's headers take this host compiler: once, and before any compile, instead of once a unit."""
    command = dryrun.host_check(plan)
    if command is None:
        return
    done = run(["sh", "-c", command], env=env.copy())
    if done.returncode != 0:
        error = hostcxx.explain_refusal(done.stderr, driver, host.origin, env)
        if error is not None:
            raise error


def _complaint(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("#$")]
    return " / ".join(lines) or "(it says nothing)"


def _logical_commands(plan: dryrun.DryRun, root: str) -> str:
    text = dryrun.command_text(plan)
    return text.replace(root, "@cuda").replace(os.path.normpath(root), "@cuda") if root else text


def _host_tools(driver: str, env: Environment) -> list[tuple[str, str]]:
    """The host compiler and the programs that it starts; a compiler without separate ones (clang) names them bare."""
    tools = [("host compiler", driver)]
    for name in ("cc1plus", "cc1", "as"):
        answer = run([driver, f"-print-prog-name={name}"], env=env.copy()).stdout.strip()
        path = _resolve(answer, env) if answer else None
        if path is not None:
            tools.append((name, path))
    return tools


def _builtin_folders(driver: str, flags: tuple[str, ...], env: Environment) -> list[str]:
    """The host compiler's own include folders, as it spells them."""
    child = {name: value for name, value in env.copy().items() if name not in arguments.ENVIRONMENT}
    text = run([driver, *flags, "-E", "-v", "-x", "c++", "/dev/null"], env={**child, "LC_ALL": "C"}).stderr
    listing = re.search(r"^#include <\.\.\.> search starts here:\n(.*?)^End of search list", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in listing[1].splitlines()] if listing else []


def _what_it_adds(driver: str, flags: tuple[str, ...], env: Environment) -> str:
    """What a host compiler that is a script makes of its arguments today: its macros, and the commands that it runs."""
    done = run([driver, *flags, "-E", "-dM", "-v", "-x", "c++", "/dev/null"], env={**env.copy(), "LC_ALL": "C"})
    return re.sub(r"/cc\w{6}\b", "/cc", done.stdout + done.stderr)


def _search_order(plan: dryrun.DryRun, builtin: list[str], env: Environment) -> tuple[str, ...]:
    """Every folder in each of the places where it may be searched. gcc drops an -I folder that is a system folder too, and
    searches it in the later place; whether two names are one folder can change from build to build."""
    of_kind: dict[dryrun.DirKind, list[str]] = {"quote": [], "user": [], "system": [], "after": []}
    for entry in dryrun.include_dirs(plan):
        of_kind[entry.kind].append(entry.path)
    quote = (["."] if dryrun.forces_includes(plan) else []) + of_kind["quote"]
    user = of_kind["user"] + _listed(env.get("CPATH"))
    variables = _listed(env.get("CPLUS_INCLUDE_PATH")) + _listed(env.get("C_INCLUDE_PATH"))
    system = [*of_kind["system"], *variables, *builtin, *of_kind["after"]]
    return (*dict.fromkeys(quote), *dict.fromkeys(user), *dict.fromkeys(system))


def _listed(value: str | None) -> list[str]:
    """A search path variable; an empty element means the current folder."""
    return [element or "." for element in value.split(os.pathsep)] if value else []


def _resolve(program: str, env: Environment) -> str | None:
    if "/" in program:
        return program if os.path.isfile(program) else None
    return next(iter(search_path(program, env.peek("PATH"))), None)


def _is_binary(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _is_own(nvcc: str, plan: dryrun.DryRun) -> bool:
    """Whether the nvcc that was called is the toolkit's, not a program that calls it (ccache under nvcc's name)."""
    real = os.path.join(plan.variables.get("_HERE_", ""), "nvcc")
    return os.path.realpath(real) == os.path.realpath(nvcc)
