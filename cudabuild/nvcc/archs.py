"""This module is the GPU architectures to build for: the words of `arch` resolved against what the toolkit can do.

| word | meaning |
| --- | --- |
| `80`, `sm_80`, `80-real` | machine code (SASS) for 8.0 |
| `compute_80`, `80-virtual` | PTX only, which the driver compiles at load |
| `80+ptx`, `sm_80+ptx` | both |
| `90a`, `100f` | the architecture-specific and family variants, in every form above |
| `native`, `native+ptx` | the GPUs of this machine |
| `all-major` | as nvcc's own: the toolkit's oldest architecture, every x.0 one, and PTX of the newest x.0 |
| `all` | as nvcc's own: every architecture of the toolkit, and PTX of the newest x.0 |

Unlike CMake's, a plain `80` carries no PTX: that it does not run on a GPU of tomorrow should be seen in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from cudabuild.errors import ConfigError, ToolchainError

_CHOICES = "write 80 or sm_80 (machine code), compute_80 (PTX), 80+ptx (both), 90a, native, all-major or all"
_WORD = re.compile(
    r"(?:sm_)?(?P<sass>\d{2,3}[af]?)(?P<ptx>\+ptx)?"
    r"|(?P<real>\d{2,3}[af]?)-real"
    r"|(?:compute_(?P<compute>\d{2,3}[af]?)|(?P<virtual>\d{2,3}[af]?)-virtual)",
    re.ASCII,
)
# The first architectures that have the variant. `nvcc --list-gpu-arch` of recent toolkits names only the plain ones.
_FIRST_WITH = {"a": 90, "f": 100}


class Arch(msgspec.Struct, frozen=True):
    """One architecture, as machine code, PTX or both."""

    virtual: str
    """Its number and variant: `80`, `90a`."""
    sass: bool
    ptx: bool

    def labels(self) -> tuple[str, ...]:
        """What ends up in the object: `sm_80`, `compute_80`."""
        return (f"sm_{self.virtual}",) * self.sass + (f"compute_{self.virtual}",) * self.ptx

    def gencode(self) -> tuple[str, ...]:
        """nvcc's arguments."""
        codes = self.labels()
        code = codes[0] if len(codes) == 1 else f"[{','.join(codes)}]"
        return (f"-gencode=arch=compute_{self.virtual},code={code}",)


class Resolution(msgspec.Struct, frozen=True):
    archs: tuple[Arch, ...]
    """Oldest first, each once: the order of the words does not matter."""
    warnings: tuple[str, ...]


def resolve(
    words: Sequence[str],
    available: Sequence[str],
    native: Callable[[], tuple[str, ...]],
    toolkit: str,
) -> Resolution:
    """The architectures that `words` name.

    `available` is what `nvcc --list-gpu-arch` prints, `native` tells the numbers of this machine's GPUs (asked only
    when a word needs it), and `toolkit` is the toolkit's name in messages: its path and version.
    """
    known = [name.removeprefix("compute_").removeprefix("sm_") for name in available]
    plain = sorted((name for name in known if name.isdigit()), key=int)
    wanted: list[Arch] = []
    unknown: list[str] = []
    native_words: list[str] = []
    for word in words:
        if word in ("all", "all-major"):
            wanted += _all_of(plain, every=word == "all")
        elif word in ("native", "native+ptx"):
            native_words.append(word)
        elif (arch := _parse(word)) is not None:
            wanted.append(arch)
        else:
            unknown.append(word)
    if unknown:
        raise ConfigError(f"arch: {_listed(unknown)} is not an architecture", _CHOICES)

    warnings: tuple[str, ...] = ()
    numbers = native() if native_words else ()
    if numbers:
        wanted += [Arch(number.removeprefix("sm_"), True, "native+ptx" in native_words) for number in numbers]
    elif native_words and not wanted:
        raise ToolchainError(
            "arch is native, but this machine shows no GPU (nor is there another arch to fall back to)",
            'name the architectures to build for, as in arch = ["80", "90"], or add them beside native',
        )
    elif native_words:
        built = _listed(label for arch in _merged(wanted) for label in arch.labels())
        warnings = (f"arch native: this machine shows no GPU; built for {built} only",)

    archs = _merged(wanted)
    lacking = [arch.virtual for arch in archs if not _can_build(arch.virtual, known)]
    if lacking:
        of_this_machine = [number for number in lacking if f"sm_{number}" in numbers or number in numbers]
        note = f" ({_listed(of_this_machine)}: this machine's GPU, by `native`)" if of_this_machine else ""
        raise ConfigError(
            f"arch: {toolkit} cannot build for {_listed(lacking)}{note}; it can build for {_listed(plain)}",
            "leave those out of arch, or choose another toolkit with the `toolkit` field or CUDA_HOME",
        )
    return Resolution(archs, warnings)


def _parse(word: str) -> Arch | None:
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    if sass := match["sass"] or match["real"]:
        return Arch(sass, True, match["ptx"] is not None)
    return Arch(match["compute"] or match["virtual"], False, True)


def _all_of(plain: list[str], *, every: bool) -> list[Arch]:
    if not plain:
        return []
    whole = [number for number in plain if number.endswith("0")]
    chosen = plain if every else sorted({plain[0], *whole}, key=int)
    newest = (whole or plain)[-1]
    return [Arch(number, True, number == newest) for number in chosen]


def _can_build(virtual: str, known: list[str]) -> bool:
    if virtual in known:
        return True
    number, variant = virtual[:-1], virtual[-1]
    return variant in _FIRST_WITH and number in known and int(number) >= _FIRST_WITH[variant]


def _merged(archs: Iterable[Arch]) -> tuple[Arch, ...]:
    by_name: dict[str, Arch] = {}
    for arch in archs:
        same = by_name.get(arch.virtual, arch)
        by_name[arch.virtual] = Arch(arch.virtual, arch.sass or same.sass, arch.ptx or same.ptx)
    return tuple(by_name[name] for name in sorted(by_name, key=_order))


def _order(virtual: str) -> tuple[int, str]:
    # As numbers: as text, 90 comes after 100.
    variant = virtual.lstrip("0123456789")
    return int(virtual.removesuffix(variant)), variant


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
