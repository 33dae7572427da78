"""This module is the toolchain of one build: which nvcc, what it is made of, and where it looks for headers and libraries.

The answers of the tools are remembered in the build's record, under a digest of everything that decides them, so a build with
nothing to do starts no process. A tool that is a script can do something else tomorrow with the same bytes, so then it is asked
each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import msgspec

from cudabuild.config.schema import BuildConfig
from cudabuild.errors import ToolchainError
from cudabuild.files import Digests, digest_text
from cudabuild.graph.search import Search
from cudabuild.host import Environment, run, search_path
from cudabuild.nvcc import archs, arguments, find, hostcxx
from cudabuild.nvcc.probe import Probe, ask, environment
from cudabuild.nvcc.quoting import refuse
from cudabuild.roots import Roots


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """What a build needs to know of its tools. `identity` holds name and content digest of every tool; `paths` the same tools'
    files, to be announced to cargo."""

    nvcc: str
    origin: str
    version: str
    host_compiler: str
    host_origin: str
    archs: tuple[archs.Arch, ...]
    flags: tuple[str, ...]
    ccbin: str | None
    search: Search
    library_dirs: tuple[str, ...]
    root: str
    identity: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    commands: str
    probe: Probe
    warnings: tuple[str, ...]

    @property
    def takes_seed(self) -> bool:
        """Whether nvcc has --frandom-seed (13.0 has it, 12.4 has not)."""
        return int(self.version.split(".")[0]) >= 13


def examine(
    config: BuildConfig, env: Environment, roots: Roots, digests: Digests, remembered: Callable[[str], Sequence[Probe]]
) -> Toolchain:
    """Find the tools and ask them what they are, unless the answers to this question are `remembered`. ToolchainError or ConfigError when they cannot do what is configured."""
    found = find.find(config.toolkit, env, crate_root=config.crate_root)
    host = hostcxx.choose(config.host_compiler, env, crate_root=config.crate_root, flags=config.flags)
    variables = {name: value for name in arguments.ENVIRONMENT if (value := env.get(name)) is not None}
    here = digest_text(repr((
        found.nvcc, digests.of(found.nvcc), digests.of(os.path.join(os.path.dirname(found.nvcc), "nvcc.profile")),
        variables, host.path, host.compiler, host.compiler and digests.of(host.compiler), search_path("as", env.peek("PATH"))[:1],
    )))  # fmt: skip
    known = [probe for probe in remembered(here) if probe.question.startswith(here) and probe.still_true(digests)]
    same_tools = next(iter(known), None)
    version, available = (
        (same_tools.version, same_tools.available) if same_tools else version_and_archs(found.nvcc, env)
    )
    resolution = archs.resolve(
        config.arch, available, lambda: native_archs(found.nvcc, env), f"nvcc {version} at {found.nvcc} ({found.origin})"
    )
    flags = arguments.flags(config, resolution.archs, host.path, roots, "cuda")
    question = here + digest_text(repr(flags))
    probe = next((probe for probe in known if probe.question == question), None)
    if probe is None:
        probe = ask(question, found, host, flags, version, available, env, roots, digests)
    return Toolchain(
        nvcc=found.nvcc, origin=found.origin, version=version,
        host_compiler=probe.host_compiler, host_origin=host.origin,
        archs=resolution.archs, flags=flags, ccbin=host.path,
        search=_search(probe, roots),
        library_dirs=probe.library_dirs, root=probe.root,
        identity=tuple((role, digest) for role, _, digest in probe.tools),
        paths=tuple(path for _, path, _ in probe.tools),
        commands=probe.commands, probe=probe,
        warnings=(*found.notes, *resolution.warnings),
    )  # fmt: skip


def version_and_archs(nvcc: str, env: Environment, timeout: float | None = None) -> tuple[str, tuple[str, ...]]:
    """nvcc's version (13.0.88) and the numbers of the architectures that it can build for. ConfigError when it stands where
    it would make commands that sh acts on; this is the first question that any nvcc is asked."""
    refuse("tool", nvcc, "nvcc's path")
    version = re.search(r"\bV(\d+(?:\.\d+)+)", _output([nvcc, "--version"], env, timeout))
    if version is None:
        raise ToolchainError(f"{nvcc} does not say its version as nvcc does", "set `toolkit` or NVCC to a CUDA toolkit's nvcc")
    available = re.findall(r"compute_(\w+)", _output([nvcc, "--list-gpu-arch"], env, timeout))
    return version[1], tuple(available)


def _output(argv: list[str], env: Environment, timeout: float | None) -> str:
    try:
        done = run(argv, env=environment(env), timeout=timeout)
    except TimeoutError as error:
        raise ToolchainError(
            f"`{' '.join(argv)}` {error.strerror}", "set `toolkit`, NVCC or CUDA_HOME to a working CUDA toolkit"
        ) from error
    except OSError as error:
        raise ToolchainError(
            f"{argv[0]} cannot be started: {error.strerror}", "set `toolkit`, NVCC or CUDA_HOME to a working CUDA toolkit"
        ) from error
    if done.returncode != 0:
        raise ToolchainError(
            f"`{' '.join(argv)}` failed with exit code {done.returncode}: {(done.stderr or done.stdout).strip()}",
            "`cudabuild doctor` shows which toolkit is found, and from where",
        )
    return done.stdout


def native_archs(nvcc: str, env: Environment, timeout: float | None = None) -> tuple[str, ...]:
    """The architectures of this machine's GPUs, e.g. ("90",); none when there is no driver.

    nvidia-smi may be missing in a container, so what nvcc itself asks for -arch=native is asked too.
    """
    queries = [[program, "--query-gpu=compute_cap", "--format=csv,noheader"] for program in search_path("nvidia-smi", env.peek("PATH"))]
    for argv in (*queries[:1], [os.path.join(os.path.dirname(nvcc), "__nvcc_device_query")]):
        try:
            done = run(argv, env=env.copy(), timeout=timeout)
        except OSError:
            continue
        found = re.findall(r"\b(\d+)\.?(\d)\b", done.stdout) if done.returncode == 0 else []
        if found:
            return tuple(dict.fromkeys(major + minor for major, minor in found))
    return ()


def _search(probe: Probe, roots: Roots) -> Search:
    folders, builtin = (
        tuple(_absolute(folder, roots) for folder in named) for named in (probe.include_dirs, probe.builtin_dirs)
    )
    return Search(folders, builtin, tuple(os.path.realpath(folder) for folder in folders))


def _absolute(folder: str, roots: Roots) -> str:
    return roots.crate if folder == "." else roots.absolute(folder).rstrip("/") or "/"
