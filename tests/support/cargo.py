"""This module builds crates as their users do: with cargo, a real nvcc, and this repository's cudabuild.

The environment is scrubbed, everything that is written lies below one folder, and two scripts keep count: the one that stands
for cudabuild, of build script runs, and the one that stands for nvcc, of compiles.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real import unit_source
from workspace import REPOSITORY, to_toml

CUDABUILD = """#!/bin/sh
echo run >> {log}
PYTHONPATH={repository} exec {python} -m cudabuild "$@"
"""

# A script may do something else each time, so it is asked for its version and its dry run at every build: only compiles count.
NVCC = """#!/bin/sh
for last; do :; done
case " $* " in
  *" --dryrun "*) ;;
  *" -c "*) printf '%s\\n' "$last" >> {log}; sleep "${{NVCC_PAUSE:-0}}" ;;
esac
exec {nvcc} "$@"
"""

PASSED_ON = ("HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")
TEMPLATE = REPOSITORY / "templates/build.rs"

PROBE = """extern "C" {
    fn probe() -> i32;
}

fn main() {
    println!("{}", unsafe { probe() });
}
"""


@dataclass(frozen=True)
class Built:
    """What one cargo command did: its exit code and words, the build scripts' runs, the sources that nvcc compiled."""

    exit_code: int
    output: str
    script_runs: int
    compiled: list[str]


class CargoWorkspace:
    """Crates below `root`/`folder`, which is a crate, a workspace, or a folder of crates."""

    def __init__(self, root: Path, nvcc: str, folder: str = "crate") -> None:
        self.root = root
        self.folder = root / folder
        self.folder.mkdir(parents=True)
        self.nvcc = nvcc
        self.target = root / "target"
        self._runs, self._compiles = root / "runs.log", root / "compiles.log"
        cudabuild = self._script("bin/cudabuild", CUDABUILD, log=self._runs, repository=REPOSITORY, python=sys.executable)
        shim = self._script("bin/nvcc", NVCC, log=self._compiles, nvcc=nvcc)
        cargo = shutil.which("cargo")
        assert cargo is not None
        self.env = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {
            "PATH": f"{os.path.dirname(cargo)}:/usr/bin:/bin",
            "CUDABUILD": str(cudabuild),
            "NVCC": str(shim),
            "CARGO_TARGET_DIR": str(self.target),
            "CARGO_TERM_COLOR": "never",
            "CARGO_INCREMENTAL": "0",
            "CUDABUILD_CACHE": "off",
        }

    def _script(self, name: str, text: str, **values: Any) -> Path:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(**{key: shlex.quote(str(value)) for key, value in values.items()}))
        path.chmod(0o755)
        return path

    # Files

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {name}"
        self.write(name, text.replace(old, new))

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def manifest(self, crate: str, name: str, dependencies: Sequence[str] = (), extra: str = "") -> None:
        """Cargo.toml of the crate in the folder `crate`; each dependency lies beside it under its own name."""
        needs = "".join(f'{needed} = {{ path = "../{needed}" }}\n' for needed in dependencies)
        self.write(
            f"{crate}/Cargo.toml",
            f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n{needs}{extra}',
        )

    def kernels(self, crate: str, **settings: Any) -> None:
        """The build script and cudabuild.toml of the crate in the folder `crate`."""
        self.write(f"{crate}/build.rs", TEMPLATE.read_text())
        values = {"name": "kernels", "sources": ["kernels/*.cu"], "arch": ["80"]} | settings
        named = {key.replace("_", "-"): value for key, value in values.items()}
        self.write(f"{crate}/cudabuild.toml", to_toml(named))

    def probe_crate(self, crate: str = ".", name: str = "probe-crate", **settings: Any) -> None:
        """The least crate: kernels/k.cu returns VAL of kernels/k.cuh, and main prints it."""
        self.manifest(crate, name)
        self.kernels(crate, **settings)
        self.write(f"{crate}/kernels/k.cuh", "#define VAL 1\n")
        self.write(f"{crate}/kernels/k.cu", unit_source("VAL", ("k.cuh",)))
        self.write(f"{crate}/src/main.rs", PROBE)

    # Running

    def cargo(
        self, *arguments: str, expect: int = 0, cwd: Path | None = None, prefix: Sequence[str] = (),
        meanwhile: Callable[[], None] | None = None, **variables: str,
    ) -> Built:  # fmt: skip
        """One cargo command, never with the network, behind `prefix`. `meanwhile` is done when nvcc is called for the first
        time; the variable NVCC_PAUSE holds each compile back for that many seconds."""
        runs, compiles = len(_lines(self._runs)), len(_lines(self._compiles))
        process = subprocess.Popen(
            [*prefix, "cargo", "--offline", *arguments], cwd=cwd or self.folder, env=self.env | variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if meanwhile is not None:
            while len(_lines(self._compiles)) == compiles and process.poll() is None:
                time.sleep(0.01)
            meanwhile()
        output, _ = process.communicate(timeout=300)
        code = process.returncode
        assert code == expect, f"exit code {code}, expected {expect}\n{output}"
        return Built(code, output, len(_lines(self._runs)) - runs, sorted(_lines(self._compiles)[compiles:]))

    def build(self, *arguments: str, **options: Any) -> Built:
        return self.cargo("build", *arguments, **options)

    def program(self, name: str = "probe-crate") -> Path:
        return self.target / "debug" / name

    def run_program(self, name: str = "probe-crate", **variables: str) -> str:
        """What the built program prints."""
        done = subprocess.run([self.program(name)], env=variables, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def directives(self, package: str = "probe-crate") -> list[tuple[str, str]]:
        """Key and value of each line that the package's build script printed for cargo, in order."""
        (output,) = self.target.glob(f"debug/build/{package}-*/output")
        pairs = [line.removeprefix("cargo:").removeprefix(":").partition("=") for line in output.read_text().splitlines()]
        return [(key, value) for key, _, value in pairs]

    def values(self, key: str, package: str = "probe-crate") -> list[str]:
        return [value for found, value in self.directives(package) if found == key]

    def watched(self, package: str = "probe-crate") -> list[str]:
        return self.values("rerun-if-changed", package)

    def out_dir(self, package: str = "probe-crate") -> Path:
        (out,) = self.target.glob(f"debug/build/{package}-*/out")
        return out

    def report(self, package: str = "probe-crate") -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.out_dir(package) / "cudabuild/report.json").read_text())
        return report

    def changes(self, source: str, package: str = "probe-crate") -> list[str]:
        """Why the last run compiled a unit: the names of what changed."""
        (unit,) = (unit for unit in self.report(package)["units"] if unit["source"] == source)
        return [change["name"] for change in unit["changes"]]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
