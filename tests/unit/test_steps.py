"""This module checks the scripts and the build.ninja that ninja gets, with the real ninja and sh."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cudabuild.ninja.process import find_ninja
from cudabuild.ninja.steps import Outcome, Step, outcome, write


def step(folder: Path, name: str, *argv: str, summary: str = "k.cu") -> Step:
    scratch = folder / "0" / name
    near = os.path.relpath(scratch, folder)
    return Step(name=name, summary=summary, argv=argv, cwd=str(folder), folder=str(scratch), temporary=f"{near}/tmp")


def ninja(folder: Path, *steps: Step, pool: int | None = None) -> subprocess.CompletedProcess[str]:
    file = write(steps, str(folder / "0"), pool)
    argv = [find_ninja(os.environ["PATH"]), "-f", file, "-k", "0", "-j", "4"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def test_step_runs_and_its_end_is_read_back(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "sh", "-c", "echo out; echo err >&2")
    assert ninja(tmp_path, one).returncode == 0
    result = outcome(one)
    assert (result.exit_code, result.output) == (0, "out\nerr\n")
    assert 0 < result.started_ns <= result.ended_ns


def test_exit_code_and_words_of_a_failed_step_are_read_back(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "sh", "-c", "echo why >&2; exit 255")
    assert ninja(tmp_path, one).returncode != 0
    assert (outcome(one).exit_code, outcome(one).output) == (255, "why\n")


def test_killed_step_has_the_shells_exit_code_for_it(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "sh", "-c", "kill -9 $$")
    ninja(tmp_path, one)
    assert outcome(one).exit_code == 128 + 9


def test_step_that_cannot_be_started_failed(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "/no/such/nvcc")
    ninja(tmp_path, one)
    assert outcome(one).exit_code == 127
    assert "/no/such/nvcc" in outcome(one).output


def test_step_that_did_not_run_did_not_end(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "true")
    write([one], str(tmp_path / "0"), None)
    assert outcome(one) == Outcome(exit_code=None, output="", started_ns=0, ended_ns=0)


def test_step_that_was_cut_off_did_not_end(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "true")
    ninja(tmp_path, one)
    Path(one.ended).write_text("")
    assert outcome(one).exit_code is None


def test_output_that_is_no_utf8_is_shown_as_well_as_it_can(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "printf", "a\\377b")
    ninja(tmp_path, one)
    assert outcome(one).output == "a\ufffdb"


def test_step_runs_in_its_folder_with_a_temporary_folder_of_its_own_and_no_input(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "sh", "-c", 'pwd; cat; test -d "$TMPDIR" && echo > "$TMPDIR/x" && echo "$TMPDIR"')
    two = step(tmp_path, "b-2", "sh", "-c", 'echo "$TMPDIR"')
    ninja(tmp_path, one, two)
    assert outcome(one).output.splitlines() == [str(tmp_path), "0/a-1/tmp"]
    assert outcome(two).output.splitlines() == ["0/b-2/tmp"]


@pytest.mark.parametrize(
    "name", ["my kernel-1", "a:b-1", "a|b-1", "ü-1", "a#b-1", "|| x-1", "@$x", "all", "a=b-1", "-1", "(a)&;-1"]
)
def test_name_of_a_source_may_hold_anything(tmp_path: Path, name: str) -> None:
    """C10: two sources whose names share a word are two steps."""
    one, two = step(tmp_path, name, "echo", "one", summary=f"{name}.cu"), step(tmp_path, f"{name} 2", "echo", "two")
    done = ninja(tmp_path, one, two)
    assert done.returncode == 0, done.stdout
    assert (outcome(one).output, outcome(two).output) == ("one\n", "two\n")
    assert f"{name}.cu" in done.stdout


@pytest.mark.parametrize(
    "folder", ["w s", "d$x", "a#b", "c:d", "ünï", "it's", 'q"q', "x$(echo)y", "`id`", "a;b", "a\\b"]
)
def test_folder_of_a_build_may_be_called_anything(tmp_path: Path, folder: str) -> None:
    """C10"""
    root = tmp_path / folder
    root.mkdir()
    one = step(root, "a-1", "echo", "one")
    done = ninja(root, one)
    assert (done.returncode, outcome(one).output) == (0, "one\n"), done.stdout


def test_no_steps_are_a_build_file_too(tmp_path: Path) -> None:
    os.makedirs(tmp_path / "0")
    assert ninja(tmp_path).returncode == 0


@pytest.mark.parametrize("pool", [1, 2])
def test_pool_limits_how_many_run_at_once(tmp_path: Path, pool: int) -> None:
    log = tmp_path / "log"
    steps = [
        step(tmp_path, f"s{number}", "sh", "-c", f"echo + >> {log}; sleep 0.1; echo - >> {log}") for number in range(5)
    ]
    ninja(tmp_path, *steps, pool=pool)
    running = [sum(1 if mark == "+" else -1 for mark in log.read_text().split()[:end]) for end in range(1, 11)]
    assert max(running) == pool


def test_long_command_is_run(tmp_path: Path) -> None:
    """One argument of sh -c may have 128 KiB; a script may be longer."""
    one = step(tmp_path, "a-1", "sh", "-c", "echo $#", "sh", *(f"-I{'x' * 100}{number}" for number in range(3000)))
    assert ninja(tmp_path, one).returncode == 0
    assert outcome(one).output == "3000\n"


def test_script_runs_by_hand_from_anywhere(tmp_path: Path) -> None:
    one = step(tmp_path, "a-1", "sh", "-c", "pwd; exit 7")
    ninja(tmp_path, one)
    Path(one.log).unlink()
    assert subprocess.run(["sh", one.script], cwd="/", check=False).returncode == 7
    assert outcome(one).output == f"{tmp_path}\n"
