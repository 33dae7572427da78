"""Whatever was edited, a build leaves the objects that a build from nothing makes: a random walk with a real nvcc."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable

import pytest
from real import Project, unit_source

pytestmark = [pytest.mark.nvcc, pytest.mark.slow]

EDITS = 40
INCLUDE = "kernels/include"
UNITS = {
    "kernels/a.cu": ("MID + LINKED", ("mid.cuh", "link.cuh")),
    "kernels/b.cu": ("BASE + MAYBE + FLAG", ("base.cuh", "asks.cuh")),
    "kernels/c.cu": ("SAME + NEWEST", ("x/same.cuh", "y/same.cuh", "newest.cuh")),
}
ASKS = "#if __has_include(<maybe.cuh>)\n#include <maybe.cuh>\n#else\n#define MAYBE 10\n#endif\n"
HEADERS = {
    "mid.cuh": '#pragma once\n#include "base.cuh"\n#define MID (BASE + 10)\n',
    "asks.cuh": ASKS + "#ifndef FLAG\n#define FLAG 10\n#endif\n",
    "newest.cuh": '#if __CUDA_ARCH__ >= 900\n#include "only90.cuh"\n#else\n#define NEWEST 10\n#endif\n',
}
# With a number of two digits, so that an edit can keep the size.
NUMBERED = {
    "base.cuh": "#pragma once\n#define BASE {}\n",
    "one.cuh": "#define LINKED {}\n",
    "two.cuh": "#define LINKED {}\n",
    "x/same.cuh": "#pragma once\n#undef SAME\n#define SAME {}\n",
    "y/same.cuh": "#pragma once\n#undef SAME\n#define SAME {}\n",
    "only90.cuh": "#define NEWEST {}\n",
}


class Walk:
    """The project, and the edits that can be made to it at any time. Each returns what it did, in words."""

    def __init__(self, project: Project, seed: int) -> None:
        self.project = project
        self.random = random.Random(seed)
        project.config(include=["kernels/first", INCLUDE], arch=["80"])
        for name, text in (HEADERS | {name: text.format(10) for name, text in NUMBERED.items()}).items():
            project.write(f"{INCLUDE}/{name}", text)
            # A checkout gives all files one second, which is what makes gcc take x/same.cuh and y/same.cuh for one.
            project.set_mtime(f"{INCLUDE}/{name}", 1_700_000_000)
        project.symlink(f"{INCLUDE}/link.cuh", "one.cuh")
        for name, (value, headers) in UNITS.items():
            project.write(name, unit_source(value, headers, name[8]))
        self.edits: list[Callable[[], str]] = [
            self.renumber, self.renumber, self.renumber_behind_the_clock, self.remove_or_restore, self.comment, self.retarget,
            self.shadow, self.answer, self.define, self.architectures, self.environment, self.another_unit, self.touch,
        ]  # fmt: skip

    def step(self) -> str:
        return self.random.choice(self.edits)()

    def renumber(self) -> str:
        name, text = self._any_numbered()
        self.project.write(f"{INCLUDE}/{name}", text)
        return f"write {name}: {text!r}"

    def renumber_behind_the_clock(self) -> str:
        name, text = self._any_numbered()
        self.project.write(f"{INCLUDE}/{name}", text)
        self.project.set_mtime(f"{INCLUDE}/{name}", 1_700_000_000)
        return f"write {name} with its first time: {text!r}"

    def remove_or_restore(self) -> str:
        name, text = self._any_numbered()
        return self._toggle(f"{INCLUDE}/{name}", text)

    def comment(self) -> str:
        name = self.random.choice([*UNITS, *(f"{INCLUDE}/{name}" for name in HEADERS)])
        path = self.project.path(name)
        lines = path.read_text().splitlines(keepends=True)
        lines.insert(self.random.randrange(len(lines) + 1), f"// {self._number()}\n")
        path.write_text("".join(lines))
        return f"a comment in {name}"

    def retarget(self) -> str:
        target = self.random.choice(["one.cuh", "two.cuh"])
        self.project.symlink(f"{INCLUDE}/link.cuh", target)
        return f"link.cuh -> {target}"

    def shadow(self) -> str:
        place = self.random.choice(["kernels/first/base.cuh", "kernels/base.cuh", "kernels/first/link.cuh"])
        return self._toggle(place, f"#define {'LINKED' if 'link' in place else 'BASE'} {self._number()}\n")

    def answer(self) -> str:
        return self._toggle(f"{self.random.choice(['kernels/first', INCLUDE])}/maybe.cuh", f"#define MAYBE {self._number()}\n")

    def define(self) -> str:
        defines = self.random.choice([[], ["FLAG=20"], ["FLAG=30"], ["OTHER"]])
        self.project.config(define=defines)
        return f"define = {defines}"

    def architectures(self) -> str:
        archs = self.random.choice([["80"], ["90"], ["80", "90"], ["90", "80"]])
        self.project.config(arch=archs)
        return f"arch = {archs}"

    def environment(self) -> str:
        name, value = "NVCC_APPEND_FLAGS", self.random.choice([None, "-O1", "-DOTHER"])
        self.project.env.pop(name, None)
        self.project.env |= {name: value} if value is not None else {}
        return f"{name}={value}"

    def another_unit(self) -> str:
        return self._toggle("kernels/d.cu", unit_source("BASE", ("base.cuh",), "d"))

    def touch(self) -> str:
        for path in self.project.path("kernels").rglob("*.cu*"):
            path.touch()
        return "touch all"

    def _number(self) -> int:
        return self.random.randrange(10, 100)

    def _any_numbered(self) -> tuple[str, str]:
        name = self.random.choice(list(NUMBERED))
        return name, NUMBERED[name].format(self._number())

    def _toggle(self, name: str, text: str) -> str:
        if self.project.path(name).exists():
            self.project.remove(name)
            return f"remove {name}"
        self.project.write(name, text)
        return f"write {name}: {text!r}"


def object_bytes(project: Project, sources: list[str], clean: bool = False) -> dict[str, bytes]:
    """The objects of these sources, by the object's name."""
    stems = {source[8:].removesuffix(".cu") for source in sources}
    objects = project.objects(project.root / "clean" if clean else None)
    return {path.name: path.read_bytes() for path in objects if path.name.partition("-")[0] in stems}


@pytest.mark.parametrize("seed", [2026])
def test_objects_are_those_of_a_clean_build_after_every_edit(project: Project, seed: int) -> None:
    walk = Walk(project, seed)
    script = ["the first build"]
    kept = 0
    for _ in range(EDITS + 1):
        story = "\n".join(script)
        report = project.build(expect=(0, 1))
        clean = project.build(out=project.root / "clean", expect=(0, 1))
        assert report.failed == clean.failed, story
        made = object_bytes(project, clean.compiled, clean=True)
        ours = object_bytes(project, clean.compiled)
        assert sorted(ours) == sorted(made), story
        assert [name for name in made if ours[name] != made[name]] == [], story
        if not clean.failed:
            assert project.archive_members() == project.archive_members(project.root / "clean"), story
            assert project.build().compiled == [], story
        kept += len(report.kept)
        shutil.rmtree(project.root / "clean")
        script.append(walk.step())
    assert kept > EDITS, "a tool that always compiles would have passed\n" + "\n".join(script)
