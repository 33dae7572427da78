"""This module is the random crate of the oracle: what each file holds, as values that an edit changes, and the text they give.

Sources are kernels/a.cu to f.cu; headers h0.cuh to h7.cuh may lie in any of four folders, so that adding one shadows another. A
header includes only headers of higher numbers, so there is no cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

FOLDERS = ("kernels", "inc/one", "inc/two", "inc/three")
"""The sources' own folder, two -I folders and one -isystem folder."""
OUTSIDE = "elsewhere"
"""A folder that only CPATH or CPLUS_INCLUDE_PATH leads to."""
SOURCES = tuple(f"kernels/{letter}.cu" for letter in "abcdef")
HEADER_NAMES = tuple(f"h{number}.cuh" for number in range(8))
LINK = "inc/one/link.cuh"
TARGETS = ("versions/v1.cuh", "versions/v2.cuh")
TWINS = ("inc/one/twin.cuh", "inc/two/twin.cuh")

# One line of a file each; {} is the file's own word, so that every file's text differs, or the name of what is included.
PLAIN = ("int {}_{n};", "// remark {n}", "WARN noisy {n}", "int {}_line = __LINE__;", "char const *{}_file = __FILE__;", "char const *{}_arch = ARCHS __CUDA_ARCH_LIST__;")
ASK = '#if __has_include("{}")\nint has_{n};\n#else\nint has_not_{n};\n#endif'
INCLUDES = (
    '#include "{}"',
    "#include <{}>",
    '#if __CUDA_ARCH__ >= 900\n#include "{}"\n#endif',
    '#ifndef __CUDA_ARCH__\n#include "{}"\n#endif',
    '#ifdef FEATURE\n#include <{}>\n#endif',
    ASK,
    '#define COMPUTED "{}"\n#include COMPUTED\n#undef COMPUTED',
)
CONDITIONAL = (
    "#if __CUDA_ARCH__ >= 900\nint {}_nine_{n};\n#endif",
    "#ifndef __CUDA_ARCH__\nint {}_host_{n};\n#endif",
    "#ifdef FEATURE\nint {}_feature = FEATURE;\n#endif",
)
MISTAKES = ("SYNTAX_ERROR", '#include "never.cuh"', "#error no", "PTXAS_ERROR")


@dataclass(frozen=True)
class File:
    """`value` is a three-digit number, so that changing it keeps the size."""

    word: str
    value: int = 100
    lines: tuple[str, ...] = ()
    mistake: str = ""

    def text(self) -> str:
        start = ["#pragma once"] if not self.word.startswith("source") else []
        lines = [*start, f"int {self.word} = {self.value};", *self.lines, *([self.mistake] if self.mistake else [])]
        return "\n".join(lines) + "\n"

    def with_line(self, line: str) -> File:
        return replace(self, lines=(*self.lines, line))

    def without_line(self, index: int) -> File:
        return replace(self, lines=self.lines[:index] + self.lines[index + 1 :])


@dataclass(frozen=True)
class Settings:
    """What the configuration and the environment say; a value, so that it can key what was learnt about it."""

    include: tuple[str, ...] = ("inc/one", "inc/two")
    system: tuple[str, ...] = ("inc/three",)
    define: tuple[str, ...] = ()
    arch: tuple[str, ...] = ("80",)
    flags: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """Names of the variables that are set."""


@dataclass
class CrateModel:
    files: dict[str, File] = field(default_factory=dict)
    settings: Settings = Settings()

    def sources(self) -> list[str]:
        return [name for name in self.files if name.endswith(".cu")]

    def headers(self) -> list[str]:
        return [name for name in self.files if name.endswith(".cuh")]

    def includable(self, name: str) -> list[str]:
        """What a file may include without closing a circle."""
        base = name.rpartition("/")[2]
        if name.endswith(".cu"):
            return [*HEADER_NAMES, "link.cuh"]
        return list(HEADER_NAMES[HEADER_NAMES.index(base) + 1 :]) if base in HEADER_NAMES else []

    @staticmethod
    def initial() -> CrateModel:
        files = {name: File(f"source_{name[8]}") for name in SOURCES[:4]}
        files[SOURCES[0]] = files[SOURCES[0]].with_line('#include "h0.cuh"').with_line("#include <h2.cuh>")
        files[SOURCES[1]] = files[SOURCES[1]].with_line('#include "h1.cuh"').with_line('#include "link.cuh"')
        files[SOURCES[2]] = files[SOURCES[2]].with_line('#include "one/twin.cuh"').with_line('#include "two/twin.cuh"')
        for number, folder in enumerate(("kernels", "inc/one", "inc/two", "inc/three", "inc/two", "inc/one", "kernels", "inc/three")):
            files[f"{folder}/h{number}.cuh"] = File(f"h{number}_{folder.replace('/', '_')}")
        files["inc/one/h2.cuh"] = File("h2_inc_one")  # which of the two is read depends on the order of the folders
        for number, header in enumerate(("h5.cuh", "h6.cuh")):
            files[SOURCES[3]] = files[SOURCES[3]].with_line(ASK.format(header, n=number))
        files["kernels/h0.cuh"] = files["kernels/h0.cuh"].with_line('#include "h3.cuh"')
        files["inc/one/h1.cuh"] = files["inc/one/h1.cuh"].with_line(INCLUDES[2].format("h4.cuh", n=0))
        for number, target in enumerate(TARGETS):
            files[target] = File("version", value=101 + number)
        for twin in TWINS:
            files[twin] = File("twin")
        return CrateModel(files, Settings(include=("inc/one", "inc/two", "inc")))
