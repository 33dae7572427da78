"""This module is nvcc's command line: the arguments that decide an object, and those that only say where things go."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from cudabuild.config.schema import BuildConfig
from cudabuild.files import within
from cudabuild.graph.units import Language, Unit
from cudabuild.nvcc.archs import Arch
from cudabuild.nvcc.quoting import define_argument, host_arguments, refuse
from cudabuild.roots import Roots

# Read by nvcc itself, by the tools through nvcc.profile's `+=`, or by the host compiler (each seen to change a command or an
# output). PATH and TMPDIR are left out: the tools found are keyed by content, and every compile gets its own TMPDIR.
ENVIRONMENT = (
    "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",
    "INCLUDES", "SYSTEM_INCLUDES", "LIBRARIES", "PTXAS_FLAGS", "CUDAFE_FLAGS", "NVVM_FLAGS", "OCG_FLAGS", "NVLINK_FLAGS",
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "SOURCE_DATE_EPOCH",
)


def flags(
    config: BuildConfig, archs: Sequence[Arch], ccbin: str | None, roots: Roots, language: Language
) -> tuple[str, ...]:
    """The arguments that decide what comes out, in the order nvcc gets them; for a host source without those for CUDA."""
    out: list[str] = []
    if ccbin is not None:
        out += ["-ccbin", ccbin]
    if language == "cuda":
        for arch in archs:
            out += arch.gencode()
    if language != "c":
        out.append(f"-std={config.std}")
    out.append(f"-O{config.opt}")
    if config.debug:
        out += ["-g", "-G"] if language == "cuda" else ["-g"]
    if config.lineinfo and language == "cuda":
        out.append("-lineinfo")
    # Rust links position-independent executables by default, and the archive may end in a cdylib.
    out += ["-Xcompiler", "-fPIC"]
    for flag in config.host_flags:
        out += host_arguments(flag, f"{config.config_file}: host-flags")
    for folder in config.include:
        out.append("-I" + roots.argument(folder))
    for folder in config.system_include:
        out += ["-isystem", roots.argument(folder)]
    for define in config.define:
        out.append(define_argument(define, f"{config.config_file}: define"))
    out += config.flags
    return tuple(out)


_DEBUG = re.compile(
    r"-{1,2}(g(?!encode\b|enerate-(?!line-info)|pu-).*|G|lineinfo|device-debug|debug|pg|fprofile.*|ftest-coverage|coverage)"
)
_BETWEEN_OPTIONS = re.compile(r"""[\s,='"\\]+""")


def bound_to(
    config: BuildConfig, unit: Unit, flags: Sequence[str], environment: Mapping[str, str], roots: Roots
) -> tuple[str, ...]:
    """The folders whose names may be in the object, or that a flag or variable means by their names: another checkout with the
    same flag does not mean its own. `flags` are as nvcc gets them."""
    if _holds_paths(config, unit, environment, roots):
        return roots.crate, roots.out
    given = "\n".join((*flags, *environment.values()))
    named = [root for root in (roots.crate, roots.out) if _names(given, root)]
    # A flag that is such a path means each build's own toolkit, which nvcc names in full anyway.
    if roots.cuda and _names("\n".join((*map(roots.logical_argument, flags), *environment.values())), roots.cuda):
        named.append(roots.cuda)
    return tuple(named)


def _names(text: str, folder: str) -> bool:
    return folder in text and re.search(re.escape(folder) + r"(?![\w.-])", text) is not None


def _holds_paths(config: BuildConfig, unit: Unit, environment: Mapping[str, str], roots: Roots) -> bool:
    """Whether the object may hold the folder that it was made in: by debug information and line tables, or by __FILE__ in what
    lies in the output folder."""
    if config.debug or config.lineinfo:
        return True
    named = [*config.flags, *config.host_flags]
    named += [environment.get(name, "") for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")]
    places = [unit.source, *map(roots.argument, (*config.include, *config.system_include))]
    inside = any(within(roots.absolute(place), roots.out) for place in places)
    return inside or any(_DEBUG.fullmatch(part) for word in named for part in _BETWEEN_OPTIONS.split(word))


def check_paths(config: BuildConfig, units: Sequence[Unit], roots: Roots) -> None:
    """Raise ConfigError for what nvcc's shell would not hand on as it is; see nvcc.quoting."""
    refuse("crate", roots.crate, "the crate's folder")
    refuse("folder", os.path.relpath(roots.out, roots.crate), "the output folder, seen from the crate")
    for unit in units:
        refuse("source", unit.source, "source")
    for folder in config.include:
        refuse("folder", roots.argument(folder), f"{config.config_file}: include")
    for folder in config.system_include:
        refuse("folder", roots.argument(folder), f"{config.config_file}: system-include")


def compile_command(
    nvcc: str, flags: Sequence[str], unit: Unit, *, object: str, depfile: str, keep_dir: str, seed: bool
) -> tuple[str, ...]:
    """One whole-unit compile.

    --keep gives the intermediate files fixed names instead of nvcc's process id, which otherwise ends up in the object; the
    seed does the same for units with no external symbol (nvcc 13.0 and newer).
    """
    return (
        nvcc, "-c", *flags,
        *(("--frandom-seed", unit.name) if seed and unit.language == "cuda" else ()),
        "--keep", "--keep-dir", keep_dir, "-MD", "-MF", depfile, "-o", object, unit.source,
    )  # fmt: skip


def probe_command(nvcc: str, flags: Sequence[str]) -> tuple[str, ...]:
    """Ask what nvcc would run, without running it."""
    return (nvcc, "--dryrun", *flags, "-c", "-x", "cu", "/dev/null", "-o", "probe.o")
