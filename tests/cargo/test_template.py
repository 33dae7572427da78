"""The build script that `cudabuild init` writes: where it finds cudabuild, and what it does with its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudabuild.scaffold import template

pytestmark = pytest.mark.cargo


def compile_script(source: Path, edition: str, program: Path) -> subprocess.CompletedProcess[str]:
    command = ["rustc", "--edition", edition, "-D", "warnings", "-o", str(program), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled build.rs."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "build.rs").write_text(template("build.rs"))
    done = compile_script(folder / "build.rs", "2021", folder / "build-script")
    assert done.returncode == 0, done.stderr
    return folder / "build-script"


class Machine:
    """An empty PATH, no environment, and fakes of cudabuild where a test puts them."""

    def __init__(self, root: Path, script: Path) -> None:
        self.root, self.script = root, script
        (root / "bin").mkdir()
        self.variables = {"PATH": str(root / "bin"), "OUT_DIR": str(root)}

    def fake(self, place: str, exit_code: int = 0) -> Path:
        """A cudabuild that says on stdout where it lies and with which arguments it was called."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{place} $*"\necho "to stderr" >&2\nexit {exit_code}\n')
        path.chmod(0o755)
        return path

    def python(self) -> None:
        """PATH's python3 is the one that runs the tests, without what is installed there."""
        (self.root / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        (self.root / "bin/python3").chmod(0o755)

    def run(self, **variables: str | Path) -> subprocess.CompletedProcess[str]:
        env = self.variables | {name: str(value) for name, value in variables.items()}
        return subprocess.run([self.script], cwd=self.root, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path, script: Path) -> Iterator[Machine]:
    yield Machine(tmp_path, script)


def announced(run: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split("=", 1)[1] for line in run.stdout.splitlines() if line.startswith("cargo:rerun-if-env-changed=")]


@pytest.mark.parametrize("edition", ["2018", "2024"])
def test_it_compiles_without_warnings_in_the_oldest_and_newest_edition(edition: str, tmp_path: Path) -> None:
    (tmp_path / "build.rs").write_text(template("build.rs"))
    done = compile_script(tmp_path / "build.rs", edition, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")


def test_each_place_is_preferred_to_the_ones_after_it(machine: Machine) -> None:
    places = ["own/cudabuild", "venv/bin/cudabuild", "conda/bin/cudabuild", "bin/cudabuild"]
    variables = {"CUDABUILD": places[0], "VIRTUAL_ENV": "venv", "CONDA_PREFIX": "conda"}
    for place in places:
        machine.fake(place)
    for place in places:
        run = machine.run(**{name: machine.root / value for name, value in variables.items()})
        assert run.stdout.splitlines()[-1] == f"{place} build", run.stderr
        (machine.root / place).unlink()
        variables.pop("CUDABUILD", None)


def test_an_environment_without_cudabuild_does_not_hide_the_next_place(machine: Machine) -> None:
    machine.fake("conda/bin/cudabuild")
    (machine.root / "venv/bin").mkdir(parents=True)
    run = machine.run(VIRTUAL_ENV=machine.root / "venv", CONDA_PREFIX=machine.root / "conda")
    assert "conda/bin/cudabuild build" in run.stdout


def test_a_command_name_in_cudabuild_is_looked_for_on_path(machine: Machine) -> None:
    machine.fake("bin/cudabuild-next")
    machine.fake("bin/cudabuild")
    assert "bin/cudabuild-next build" in machine.run(CUDABUILD="cudabuild-next").stdout


def test_an_empty_variable_counts_as_unset(machine: Machine) -> None:
    machine.fake("bin/cudabuild")
    assert "bin/cudabuild build" in machine.run(CUDABUILD="", VIRTUAL_ENV="", CONDA_PREFIX="").stdout


def test_a_module_of_the_python_on_path_is_the_last_place(machine: Machine) -> None:
    machine.python()
    machine.fake("lib/cudabuild/__init__.py").write_text("")
    machine.fake("lib/cudabuild/__main__.py").write_text("import sys\nif __name__ == '__main__': print('module', *sys.argv[1:])")
    assert "module build" in machine.run(PYTHONPATH=machine.root / "lib").stdout
    machine.fake("bin/cudabuild")
    assert "bin/cudabuild build" in machine.run(PYTHONPATH=machine.root / "lib").stdout


def test_a_folder_named_cudabuild_in_the_crate_is_not_the_module(machine: Machine) -> None:
    machine.python()
    (machine.root / "cudabuild").mkdir()
    run = machine.run()
    assert run.returncode == 1 and "pip install cudabuild" in run.stderr


def test_variables_are_announced_when_they_are_read_and_only_then(machine: Machine) -> None:
    machine.fake("bin/cudabuild")
    machine.fake("venv/bin/cudabuild")
    assert announced(machine.run()) == ["CUDABUILD", "VIRTUAL_ENV", "CONDA_PREFIX"]
    assert announced(machine.run(VIRTUAL_ENV=machine.root / "venv")) == ["CUDABUILD", "VIRTUAL_ENV"]
    assert announced(machine.run(CUDABUILD="cudabuild")) == ["CUDABUILD"]
    assert "cargo:rerun-if-changed=build.rs" in machine.run().stdout.splitlines()


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_the_exit_code_and_both_streams_are_passed_on(machine: Machine, code: int) -> None:
    machine.fake("bin/cudabuild", exit_code=code)
    run = machine.run()
    assert (run.returncode, run.stderr) == (code, "to stderr\n")
    assert run.stdout.splitlines()[-1] == "bin/cudabuild build"


def test_a_cudabuild_that_a_signal_ended_is_a_failure(machine: Machine) -> None:
    machine.fake("bin/cudabuild").write_text("#!/bin/sh\nkill -9 $$\n")
    assert machine.run().returncode == 1


def test_without_cudabuild_it_says_how_to_install_it(machine: Machine) -> None:
    run = machine.run()
    assert run.returncode == 1
    for command in ("pip install cudabuild", "pipx install cudabuild", "export CUDABUILD="):
        assert command in run.stderr
    assert "panicked" not in run.stderr


def test_a_cudabuild_variable_that_names_nothing_is_an_error_and_not_a_reason_to_look_elsewhere(machine: Machine) -> None:
    machine.fake("bin/cudabuild")
    run = machine.run(CUDABUILD="/nowhere/cudabuild")
    assert run.returncode == 1
    assert "/nowhere/cudabuild" in run.stderr and "panicked" not in run.stderr


def test_cargo_shows_why_it_failed_recovers_and_then_has_nothing_to_do(machine: Machine) -> None:
    crate = machine.root / "crate"
    (crate / "src").mkdir(parents=True)
    (crate / "Cargo.toml").write_text('[package]\nname = "probe"\nversion = "0.1.0"\nedition = "2021"\nrust-version = "1.70"\n')
    (crate / "src/lib.rs").write_text("")
    (crate / "build.rs").write_text(template("build.rs"))
    cudabuild = machine.root / "own/cudabuild"

    def cargo() -> subprocess.CompletedProcess[str]:
        env = os.environ | {"CUDABUILD": str(cudabuild), "CARGO_TARGET_DIR": str(crate / "target")}
        command = ["cargo", "build", "--offline", "--quiet"]
        return subprocess.run(command, cwd=crate, env=env, capture_output=True, text=True, check=False)

    absent = cargo()
    assert absent.returncode == 101 and f'cannot start "{cudabuild}"' in absent.stderr
    machine.fake("own/cudabuild").write_text('#!/bin/sh\necho ran >> "$OUT_DIR/../ran"\n')
    for _ in range(2):
        present = cargo()
        assert present.returncode == 0, present.stderr
    (record,) = crate.rglob("build/*/ran")
    assert record.read_text() == "ran\n"
