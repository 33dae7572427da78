"""This module checks how ninja is run: the real ninja, real signals and real pipes; and that nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cudabuild.errors import ToolchainError
from cudabuild.host import Environment
from cudabuild.ninja import jobserver
from cudabuild.ninja.limit import Limit
from cudabuild.ninja.process import find_ninja, run_ninja
from cudabuild.ninja.steps import Step, outcome, write

REPOSITORY = Path(__file__).parents[2]
NINJA = find_ninja(os.environ["PATH"])
ENV = {"PATH": os.environ["PATH"]}


def shell(folder: Path, name: str, script: str) -> Step:
    return Step(
        name=name, summary=f"{name}.cu", argv=("sh", "-c", script), cwd=str(folder), folder=str(folder / "0" / name),
        temporary=f"0/{name}/tmp",
    )  # fmt: skip


def run(
    folder: Path, *steps: Step, limit: Limit | None = None, env: dict[str, str] = ENV
) -> tuple[str, list[tuple[int, int, str]]]:
    seen: list[tuple[int, int, str]] = []
    file = write(steps, str(folder / "0"), None)
    words = run_ninja(
        NINJA,
        file,
        cwd=str(folder),
        env=env,
        limit=limit or Limit(2, None, None),
        progress=lambda *what: seen.append(what),
    )
    return words, seen


def most_at_once(folder: Path, limit: Limit, *, env: dict[str, str] = ENV) -> int:
    log = folder / "log"
    steps = [shell(folder, f"s{number}", f"echo + >> {log}; sleep 0.15; echo - >> {log}") for number in range(6)]
    run(folder, *steps, limit=limit, env=env)
    marks = log.read_text().split()
    assert marks.count("+") == marks.count("-") == 6
    return max(sum(1 if mark == "+" else -1 for mark in marks[:end]) for end in range(1, 13))


# Steps


def test_progress_tells_each_step_as_it_ends(tmp_path: Path) -> None:
    _, seen = run(tmp_path, shell(tmp_path, "a", "true"), shell(tmp_path, "b", "true"))
    assert [(done, total) for done, total, _ in seen] == [(1, 2), (2, 2)]
    assert {name for _, _, name in seen} == {"a.cu", "b.cu"}


def test_failed_step_does_not_stop_the_others(tmp_path: Path) -> None:
    steps = [shell(tmp_path, f"s{number}", f"exit {number}") for number in range(4)]
    run(tmp_path, *steps, limit=Limit(1, None, None))
    assert [outcome(step).exit_code for step in steps] == [0, 1, 2, 3]


def test_what_ninja_says_when_it_cannot_run_is_returned(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text("nonsense\n")
    words = run_ninja(
        NINJA, str(tmp_path / "build.ninja"), cwd=str(tmp_path), env=ENV, limit=Limit(1, None, None), progress=print
    )
    assert "build.ninja" in words and "error" in words


def test_process_that_a_step_left_behind_is_ended(tmp_path: Path) -> None:
    run(tmp_path, shell(tmp_path, "a", "sleep 60 > /dev/null 2>&1 & echo $! > left"))
    gone([int((tmp_path / "left").read_text())])


def test_handlers_of_signals_are_put_back(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    run(tmp_path, shell(tmp_path, "a", "true"))
    assert [signal.getsignal(number) for number in numbers] == before


def test_error_in_the_progress_ends_ninja_too(tmp_path: Path) -> None:
    """A terminal that went away must not leave compilers behind."""

    def fail(*_: object) -> None:
        raise BrokenPipeError

    steps = [shell(tmp_path, "a", "true"), shell(tmp_path, "b", "echo $$ > b; exec sleep 60")]
    with pytest.raises(BrokenPipeError):
        run_ninja(
            NINJA,
            write(steps, str(tmp_path / "0"), None),
            cwd=str(tmp_path),
            env=ENV,
            limit=Limit(2, None, None),
            progress=fail,
        )
    if (tmp_path / "b").exists():
        gone([int((tmp_path / "b").read_text())])


# Jobs


@pytest.mark.parametrize("jobs", [1, 3])
def test_number_of_jobs_is_kept_without_a_jobserver(tmp_path: Path, jobs: int) -> None:
    assert most_at_once(tmp_path, Limit(jobs, None, None)) == jobs


@pytest.mark.parametrize("tokens", [0, 1, 2])
def test_jobserver_gives_one_job_a_token_and_one_for_free(tmp_path: Path, tokens: int) -> None:
    """Cargo's form: a pipe whose descriptors have to stay open in ninja, which gives the tokens back."""
    read, write_end = os.pipe()
    os.write(write_end, b"+" * tokens)
    server = jobserver.find(
        Environment({"CARGO_MAKEFLAGS": f"-j --jobserver-fds={read},{write_end} --jobserver-auth={read},{write_end}"})
    )
    assert server is not None
    assert most_at_once(tmp_path, Limit(8, None, server)) == tokens + 1
    os.close(write_end)
    assert os.read(read, 10) == b"+" * tokens
    os.close(read)


def test_jobserver_by_fifo_is_kept_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    end = os.open(tmp_path / "fifo", os.O_RDWR)
    os.write(end, b"+")
    server = jobserver.find(
        Environment(
            {"CARGO_MAKEFLAGS": f"-j --jobserver-fds=fifo:{tmp_path}/fifo --jobserver-auth=fifo:{tmp_path}/fifo"}
        )
    )
    assert server is not None
    assert most_at_once(tmp_path, Limit(8, None, server)) == 2
    assert os.read(end, 10) == b"+"
    os.close(end)


def test_makes_flags_do_not_reach_ninja_when_they_hold_no_jobserver_for_it(tmp_path: Path) -> None:
    assert most_at_once(tmp_path, Limit(2, None, None), env={**ENV, "MAKEFLAGS": " -j --jobserver-auth=990,991"}) == 2


# Signals

DRIVER = """
import os, sys
from cudabuild.errors import Interrupted
from cudabuild.ninja.limit import Limit
from cudabuild.ninja.process import run_ninja
try:
    run_ninja({ninja!r}, {file!r}, cwd={folder!r}, env=dict(os.environ), limit=Limit(2, None, None),
              progress=lambda *_: None)
except Interrupted as stop:
    sys.exit(stop.exit_code)
"""
HANG = "echo $$ > {0}.pid; sleep 60 & echo $! > {0}.child; wait"
DEAF = "trap '' INT TERM HUP; echo $$ > {0}.pid; sleep 60 & echo $! > {0}.child; wait; sleep 60"


class Driver:
    """Another Python that runs ninja on steps that hang, in a group of its own as under a shell."""

    def __init__(self, folder: Path, script: str, *, ignoring: str = "USR1") -> None:
        self.folder = folder
        steps = [shell(folder, name, script.format(name)) for name in ("a", "b")]
        code = DRIVER.format(ninja=NINJA, file=write(steps, str(folder / "0"), None), folder=str(folder))
        argv = ["sh", "-c", f"trap '' {ignoring}; exec \"$@\"", "sh", sys.executable, "-c", code]
        self.process = subprocess.Popen(argv, env={**ENV, "PYTHONPATH": str(REPOSITORY)}, start_new_session=True)
        names = [f"{name}.{kind}" for name in ("a", "b") for kind in ("pid", "child")]
        until(lambda: all((folder / name).exists() and (folder / name).read_text().endswith("\n") for name in names))
        self.pids = [int((folder / name).read_text()) for name in names]
        self.pids += members(os.getsid(self.pids[0]))

    def kill(self) -> None:
        for pid in {*self.pids, self.process.pid}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    drivers: list[Driver] = []

    def start(script: str, *, ignoring: str = "USR1") -> Driver:
        drivers.append(Driver(tmp_path, script, ignoring=ignoring))
        return drivers[-1]

    yield start
    for one in drivers:
        one.kill()


def members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
            except ProcessLookupError:
                pass
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def gone(pids: list[int], seconds: float = 5) -> None:
    try:
        until(lambda: not any(map(alive, pids)), seconds)
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("group", [False, True], ids=["process", "group"])
def test_signal_ends_every_descendant_and_is_told(
    driver: Callable[..., Driver], number: signal.Signals, code: int, group: bool
) -> None:
    """C21"""
    one = driver(HANG)
    started = time.monotonic()
    (os.killpg if group else os.kill)(one.process.pid, number)
    assert one.process.wait(10) == code
    assert time.monotonic() - started < 2.5, "nothing had to be killed"
    assert not any(map(alive, one.pids)), "they ended before we did"


def test_descendant_that_does_not_heed_the_signal_is_killed(driver: Callable[..., Driver]) -> None:
    """C21: within five seconds no process of the session is left."""
    one = driver(DEAF)
    started = time.monotonic()
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(10) == 130
    assert time.monotonic() - started < 5
    assert not any(map(alive, one.pids))


def test_second_signal_does_not_cut_the_end_short(driver: Callable[..., Driver]) -> None:
    one = driver(DEAF)
    for _ in range(3):
        one.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(10) == 130
    assert not any(map(alive, one.pids))


def test_ninja_and_its_children_end_when_we_are_killed(driver: Callable[..., Driver]) -> None:
    """C20"""
    one = driver(HANG)
    one.process.kill()
    one.process.wait()
    gone(one.pids)


def test_signal_that_the_caller_ignores_stays_ignored(driver: Callable[..., Driver]) -> None:
    """`nohup cargo build` goes on when the terminal closes."""
    one = driver(HANG, ignoring="HUP")
    one.process.send_signal(signal.SIGHUP)
    time.sleep(0.4)
    assert one.process.poll() is None
    assert all(map(alive, one.pids))
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(10) == 143


# The program


def test_ninja_of_the_package_comes_before_the_one_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "ninja").write_text("#!/bin/sh\n")
    (tmp_path / "ninja").chmod(0o755)
    import ninja

    assert find_ninja(str(tmp_path)) == os.path.join(ninja.BIN_DIR, "ninja")


def test_ninja_on_the_path_is_taken_when_the_package_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ninja").write_text("#!/bin/sh\n")
    (tmp_path / "ninja").chmod(0o755)
    monkeypatch.setitem(sys.modules, "ninja", None)
    assert find_ninja(str(tmp_path)) == str(tmp_path / "ninja")


def test_no_ninja_at_all_is_an_error_with_a_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ninja", None)
    with pytest.raises(ToolchainError) as caught:
        find_ninja(str(tmp_path))
    assert "pip install" in caught.value.hint
