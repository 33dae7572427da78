"""This module checks the CUDA toolkit: which nvcc, all parts there and of one release, and a kernel compiles."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator

from cudabuild.checks.finding import Finding, Seen, release
from cudabuild.errors import ToolchainError
from cudabuild.files import read
from cudabuild.host import Environment, run
from cudabuild.nvcc import arguments, dryrun, find, hostcxx, libraries
from cudabuild.nvcc.toolchain import version_and_archs

_NEEDED = ("cicc", "ptxas", "cudafe++", "fatbinary", "libdevice.10.bc", "nvcc.profile")
_HEADERS = ("cuda_runtime.h", "crt/host_config.h")
_VERSIONED = ("nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink")
_BANNER = b"Cuda compilation tools, release "
_BANNER_VERSION = re.compile(rb"Cuda compilation tools, release [\d.]+, V(\d+\.\d+\.\d+)")
_CUDART_VERSION = re.compile(rb"#define\s+CUDART_VERSION\s+(\d+)")
_ANOTHER = "choose another toolkit with `toolkit` in cudabuild.toml, NVCC or CUDA_HOME"
_TRIAL = 'extern "C" __global__ void trial(double *x) { *x = sin(*x); }\n'


def nvcc(seen: Seen) -> Iterator[Finding]:
    """The nvcc that builds use, those that they do not use, and why."""
    setting = seen.config.toolkit if seen.config else None
    chosen = find.find(setting, seen.env, crate_root=seen.crate_root)
    where = f"{chosen.nvcc} (from {chosen.origin})"
    try:
        seen.version, seen.available = version_and_archs(chosen.nvcc, Environment(seen.child()), seen.patience)
    except ToolchainError as error:
        yield Finding("nvcc", "error", "nvcc", where, error.message, _ANOTHER)
    else:
        seen.nvcc = chosen
        yield Finding("nvcc", "ok", "nvcc", f"{seen.version}, {where}")
    for note in chosen.notes:
        yield Finding("nvcc-choice", "warning", "nvcc", "", note, "unset or correct the one that you do not mean")
    shown = [chosen.nvcc]
    for other in find.candidates(setting, seen.env, crate_root=seen.crate_root):
        if not os.path.isfile(other.nvcc) or any(find.same_tool(other.nvcc, path) for path in shown):
            continue
        shown.append(other.nvcc)
        reason = other.problem or f"{chosen.origin} comes first"
        yield Finding("nvcc-other", "note", "other nvcc", f"{other.nvcc} (from {other.origin}): {reason}")


def host_compiler(seen: Seen) -> Iterator[Finding]:
    """The C++ compiler that nvcc calls, and whether nvcc and its headers take it."""
    flags = seen.config.flags if seen.config else ()
    setting = seen.config.host_compiler if seen.config else None
    chosen = hostcxx.choose(setting, seen.env, crate_root=seen.crate_root, flags=flags)
    if chosen.compiler is None:
        raise ToolchainError(
            "gcc is not on PATH, and nothing names another host compiler",
            "install g++ (Debian, Ubuntu: apt install g++), or set `host-compiler` in cudabuild.toml or NVCC_CCBIN",
        )
    version = hostcxx.version(chosen.compiler, seen.env)
    found = f"{version or 'version unknown'}, {chosen.compiler} (from {chosen.origin})"
    if seen.nvcc is None:
        yield Finding("host-compiler", "ok", "host compiler", found)
        return
    seen.host = chosen
    try:
        plan = _dry_run(seen, chosen)
    except ToolchainError as error:
        cure = (
            error.hint if seen.env.peek("PATH") else "set PATH, as in PATH=/usr/bin:/bin: gcc finds its own parts by it"
        )
        yield Finding("host-compiler", "error", "host compiler", found, error.message, cure)
    else:
        seen.plan = plan
        yield Finding("host-compiler", "ok", "host compiler", f"{found}, accepted by nvcc")


def _dry_run(seen: Seen, chosen: hostcxx.Choice) -> dryrun.DryRun:
    assert seen.nvcc is not None
    done = run(
        list(arguments.probe_command(seen.nvcc.nvcc, _ccbin(chosen))),
        env=seen.child(),
        cwd=seen.scratch,
        timeout=seen.patience,
    )
    if done.returncode != 0:
        refusal = hostcxx.explain_refusal(done.stderr, chosen.compiler, chosen.origin, seen.env)
        raise refusal or ToolchainError(
            f"nvcc's dry run failed: {_said(done.stderr)}",
            "check NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS; is this nvcc a wrapper?",
        )
    plan = dryrun.parse(done.stderr)
    command = dryrun.host_check(plan)
    if command is not None:
        done = run(["sh", "-c", command], env=seen.child(), cwd=seen.scratch, timeout=seen.patience)
        refusal = hostcxx.explain_refusal(done.stderr, chosen.compiler, chosen.origin, seen.env)
        if done.returncode != 0 and refusal is not None:
            raise refusal
    return plan


def parts(seen: Seen) -> Iterator[Finding]:
    """The programs and headers behind nvcc: all there, and all of one release."""
    if seen.plan is None or seen.nvcc is None:
        return
    paths = dict(dryrun.tool_paths(seen.plan))
    folders = [entry.path for entry in dryrun.include_dirs(seen.plan)]
    headers = {name: _in_folders(name, folders) for name in (*_HEADERS, "cuda_runtime_api.h")}
    missing = [name for name in _NEEDED if name not in paths] + [name for name in _HEADERS if not headers[name]]
    versions = {name: version for name in _VERSIONED if (version := _version_inside(paths.get(name)))}
    if runtime := _runtime_version(headers["cuda_runtime_api.h"]):
        versions["headers"] = runtime
    if missing:
        found = f"{len(missing)} of {len(_NEEDED + _HEADERS)} missing"
        yield Finding("toolkit-parts", "error", "toolkit parts", found, f"missing: {', '.join(missing)}", _cure(seen))
    releases = {name: release(version) for name, version in versions.items()}
    # ptxas reads the PTX of older releases, not of newer ones.
    fatal = "ptxas" in releases and releases.get("cicc", ()) > releases["ptxas"]
    if len(set(releases.values())) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        problem = f"the parts are of different releases: {listed}" + (
            "; ptxas does not read a newer cicc's PTX" if fatal else ""
        )
        yield Finding(
            "toolkit-releases",
            "error" if fatal else "warning",
            "toolkit parts",
            "of several releases",
            problem,
            _cure(seen),
        )
    elif not missing:
        names = ", ".join(versions) + (f" of {'.'.join(map(str, releases['nvcc']))}" if "nvcc" in releases else "")
        yield Finding("toolkit-parts", "ok", "toolkit parts", f"{names}; nvcc.profile, libdevice")
    seen.complete = not missing and not fatal


def cudart(seen: Seen) -> Iterator[Finding]:
    """The CUDA runtime library, in the form that will be linked and in the other one."""
    if seen.plan is None:
        return
    wanted = seen.config.cudart if seen.config else "static"
    found: dict[str, str] = {}
    problems: dict[str, ToolchainError] = {}
    for kind in ("static", "shared"):
        try:
            folder = libraries.cudart_folder(
                kind,
                dryrun.library_dirs(seen.plan),
                seen.plan.variables.get("TOP", ""),
                os.path.join(seen.scratch, "lib"),
            )
        except ToolchainError as error:
            problems[kind] = error
        else:
            found[kind] = os.path.realpath(
                os.path.join(folder, "libcudart_static.a" if kind == "static" else "libcudart.so")
            )
    texts = [f"{kind}: {found.get(kind, 'none')}" for kind in ("static", "shared")]
    if wanted in problems:
        lacking = problems[wanted]
        yield Finding("cudart", "error", "CUDA runtime", ", ".join(texts), lacking.message, lacking.hint)
    else:
        yield Finding("cudart", "ok", "CUDA runtime", ", ".join(texts))


def archs(seen: Seen) -> Iterator[Finding]:
    """The GPU architectures that the toolkit can build for."""
    if seen.nvcc is not None and not seen.available:
        yield Finding("gpu-archs", "error", "GPU archs", "none", "nvcc --list-gpu-arch names no architecture", _ANOTHER)
    elif seen.available:
        yield Finding(
            "gpu-archs",
            "ok",
            "GPU archs",
            " ".join(sorted(seen.available, key=lambda number: (int(number.rstrip("af")), number))),
        )


def trial(seen: Seen) -> Iterator[Finding]:
    """Device code for the newest architecture: nvcc, its headers, gcc -E, cicc, libdevice and ptxas at work together.

    Only these: the host half of a compile takes three times as long, and what it needs is checked one by one.
    """
    newest = max((number for number in seen.available if number.isdigit()), key=int, default=None)
    if seen.nvcc is None or seen.host is None or not seen.complete or newest is None:
        return
    with open(os.path.join(seen.scratch, "trial.cu"), "w", encoding="utf-8") as file:
        file.write(_TRIAL)
    argv = [seen.nvcc.nvcc, "-cubin", f"-arch=sm_{newest}", *_ccbin(seen.host), "-o", "trial.cubin", "trial.cu"]
    done = run(argv, env=seen.child(), cwd=seen.scratch, timeout=6 * seen.patience)
    if done.returncode == 0:
        yield Finding("trial-compile", "ok", "trial compile", f"a kernel compiles for sm_{newest}")
    else:
        problem = f"a kernel of one line does not compile for sm_{newest}: {_said(done.stderr or done.stdout)}"
        yield Finding("trial-compile", "error", "trial compile", "failed", problem, _cure(seen))


def _ccbin(host: hostcxx.Choice) -> tuple[str, ...]:
    """nvcc's argument for the host compiler, without the crate's flags, which may be what names it."""
    path = host.compiler if host.origin == "-ccbin in `flags`" else host.path
    return ("-ccbin", path) if path else ()


def _said(text: str) -> str:
    """A tool's own words, the first few lines of them."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#$")]
    return "\n".join(lines[:4]) or "(it says nothing)"


def _in_folders(name: str, folders: list[str]) -> str | None:
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _version_inside(path: str | None) -> str | None:
    """The version in a tool's text. cicc has no option that prints it, and reading starts no program."""
    if path is None or os.path.getsize(path) == 0:
        return None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_BANNER)
        match = _BANNER_VERSION.match(data[start : start + 100]) if start >= 0 else None
    return match[1].decode() if match else None


def _runtime_version(path: str | None) -> str | None:
    match = _CUDART_VERSION.search(read(path) or b"") if path else None
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else None


def _cure(seen: Seen) -> str:
    assert seen.nvcc is not None
    if "nvidia-cuda-nvcc" in seen.nvcc.origin or f"{os.sep}nvidia{os.sep}cu" in seen.nvcc.nvcc:
        wheels = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime")
        major_minor = ".".join(map(str, release(seen.version)))
        return "install all parts in one release: pip install " + " ".join(
            f"'{name}=={major_minor}.*'" for name in wheels
        )
    return f"install that toolkit anew, or {_ANOTHER}"
