"""examples/supraseal: a published CUDA library, built, linked, started, and rebuilt for a header deep in another crate."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from real import missing

from cudabuild.errors import ToolchainError
from cudabuild.host import Environment
from cudabuild.nvcc import find

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples/supraseal"
HEADER = "ntt/parameters/bls12_381.h"


class Crate:
    """A copy of the example, with a target folder of its own and this repository's cudabuild. CARGO_HOME is the user's."""

    def __init__(self, root: Path) -> None:
        self.root = root / "supraseal"
        shutil.copytree(EXAMPLE, self.root, ignore=shutil.ignore_patterns("target"))
        command = root / "cudabuild"
        python = shlex.quote(sys.executable)
        command.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPOSITORY))} exec {python} -m cudabuild "$@"\n')
        command.chmod(0o755)
        self.env = os.environ | {"CUDABUILD": str(command), "CARGO_TARGET_DIR": str(root / "target")}
        self.target = root / "target"

    def cargo(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["cargo", *arguments], cwd=self.root, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def use_own_sppark(self, copy: Path) -> None:
        """The registry's folder belongs to every crate on the machine; a test edits a copy."""
        metadata = json.loads(self.cargo("metadata", "--frozen", "--format-version", "1").stdout)
        (manifest,) = (package["manifest_path"] for package in metadata["packages"] if package["name"] == "sppark")
        shutil.copytree(Path(manifest).parent, copy)
        with (self.root / "Cargo.toml").open("a") as file:
            file.write(f"\n[patch.crates-io]\nsppark = {{ path = {json.dumps(str(copy))} }}\n")

    def report_file(self) -> Path:
        (found,) = self.target.glob("debug/build/supraseal-example-*/out/cudabuild/report.json")
        return found

    def build(self) -> dict[str, Any]:
        """Build, run the program, and return the report of the last run of cudabuild."""
        self.cargo("build")
        program = subprocess.run([self.target / "debug/supraseal-example"], capture_output=True, text=True, check=True)
        assert program.stdout.startswith("libgroth16_cuda.a is linked; it says: ")
        report: dict[str, Any] = json.loads(self.report_file().read_text())
        return report

    def runs_nothing(self) -> bool:
        before = self.report_file().stat().st_mtime_ns
        said = self.cargo("build", "-v").stderr
        return "Fresh supraseal-example" in said and self.report_file().stat().st_mtime_ns == before


@pytest.fixture
def crate(tmp_path: Path) -> Crate:
    try:
        find.find(None, Environment(os.environ))
    except ToolchainError:
        missing("nvcc")
    return Crate(tmp_path)


def actions(report: dict[str, Any]) -> dict[str, str]:
    return {os.path.basename(unit["source"]): unit["action"] for unit in report["units"]}


def test_the_example_looks_for_cudabuild_as_the_template_does() -> None:
    template, script = ((folder / "build.rs").read_text() for folder in (REPOSITORY / "templates", EXAMPLE))
    for start, end in (("const NOT_FOUND", "fn main"), ("/// CUDABUILD, else", None)):
        common = template[template.index(start) : template.index(end) if end else None]
        assert common in script


@pytest.mark.cargo
@pytest.mark.nvcc
@pytest.mark.slow
def test_an_edit_of_a_header_in_another_crate_compiles_the_unit_that_reads_it_and_a_touch_nothing(crate: Crate, tmp_path: Path) -> None:
    crate.cargo("fetch", "--locked")
    sppark = tmp_path / "sppark"
    crate.use_own_sppark(sppark)

    first = crate.build()
    assert actions(first) == {"groth16_cuda.cu": "compiled", "all_gpus.cpp": "compiled"}
    assert crate.runs_nothing()

    header = sppark / "sppark" / HEADER
    header.touch()
    assert not crate.runs_nothing()
    touched = crate.build()
    assert actions(touched) == {"groth16_cuda.cu": "kept", "all_gpus.cpp": "kept"}

    header.write_text(header.read_text() + "// edited\n")
    edited = crate.build()
    assert actions(edited) == {"groth16_cuda.cu": "compiled", "all_gpus.cpp": "kept"}
    assert (edited["compiled"], edited["kept"]) == (1, 1)
    (unit,) = (unit for unit in edited["units"] if unit["action"] == "compiled")
    assert [change["name"].endswith(HEADER) for change in unit["changes"]] == [True]
    assert HEADER in unit["reason"]
    assert crate.runs_nothing()
