"""This module checks where a build may write, and what becomes of output that nobody can receive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from workspace import Workspace


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_folder_of_somebody_else_is_refused_and_left_alone(prover: Workspace) -> None:
    """`--out` may name any folder, and `cudabuild` is a name that others may use."""
    for name in ("run-1/log", "run-1f-2a/log", "obj/main.o", "obj/x-0123abcd.o", "report.json"):
        path = prover.out / "cudabuild" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    before = tree(prover.out)
    for _ in range(2):
        done = prover.build(expect=2)
        assert str(prover.out / "cudabuild") in done.stderr and "--out" in done.stderr
        assert tree(prover.out) == before
    assert prover.build_under_cargo(expect=2).exit_code == 2
    assert tree(prover.out) == before


def test_library_that_no_build_made_is_not_overwritten(prover: Workspace) -> None:
    prover.archive_path().write_text("precious")
    for _ in range(2):
        assert "libkernels.a" in prover.build(expect=2).stderr
        assert tree(prover.out) == {"libkernels.a": b"precious"}
    prover.build_under_cargo()


def test_folder_with_a_record_and_no_marker_is_ours(prover: Workspace) -> None:
    prover.build()
    (prover.out / "cudabuild/.cudabuild").unlink()
    assert prover.build().compiled == []


def test_crates_of_one_folder_name_do_not_share_the_default_folder(prover: Workspace) -> None:
    root = prover.root / "workspace"
    made = []
    for name in ("a", "b"):
        crate = root / name / "kernels"
        crate.mkdir(parents=True)
        (root / "Cargo.toml").write_text('[workspace]\nmembers = ["*/kernels"]\n')
        (crate / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nversion = "0.1.0"\n')
        (crate / "cudabuild.toml").write_text(f'name = "{name}"\nsources = ["x.cu"]\narch = ["80"]\n')
        (crate / "x.cu").write_text("int x = 1;\n")
        assert prover.run(["build"], crate, prover.environment()).exit_code == 0
        made += (root / "target/cudabuild").glob(f"*/lib{name}.a")
    assert len({path.parent for path in made if path.exists()}) == 2


@pytest.mark.parametrize(
    ("arguments", "under_cargo"),
    [("build", True), *((name, False) for name in ("build", "build --json", "doctor --json", "cache path", "--version"))],
)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", ">&- 2>&-", "<&- >&-"])
def test_output_that_is_lost_is_one_message_and_a_failure(
    prover: Workspace, arguments: str, redirection: str, under_cargo: bool
) -> None:
    env = prover.environment({**prover.cargo_environment()} if under_cargo else {})
    out = "" if under_cargo or "build" not in arguments else f"--out {prover.out}"
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m cudabuild {arguments} {out} {redirection}', sys.executable], cwd=prover.crate, env=env,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    if "2>" not in redirection:
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
        assert done.stderr.count("stdout cannot be written") == 1
    if "build" in arguments:
        assert prover.archive_path().exists()


@pytest.mark.parametrize("redirection", ["2>&-", "<&- 2>&-"])
def test_closed_stderr_stops_no_build_and_nothing_of_it_lands_elsewhere(prover: Workspace, redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m cudabuild build {redirection}', sys.executable], cwd=prover.crate,
        env=prover.environment({**prover.cargo_environment()}), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert all(line.startswith("cargo:") for line in done.stdout.splitlines()), done.stdout
    assert len(prover.archive_members()) == 3
