"""This module is the scratch crate that tests build: verbs that change it, and the command line run on it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import archive
from toolkit import FakeToolkit

REPOSITORY = Path(__file__).parents[2]

CARGO_TOML = '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'


@dataclass(frozen=True)
class Report:
    """What one run of the tool said: its exit code, both streams and the JSON report."""

    exit_code: int
    stdout: str
    stderr: str
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def units(self) -> dict[str, dict[str, Any]]:
        return {unit["source"]: unit for unit in self.data.get("units", [])}

    def _with(self, action: str) -> list[str]:
        return sorted(source for source, unit in self.units.items() if unit["action"] == action)

    @property
    def compiled(self) -> list[str]:
        return self._with("compiled")

    @property
    def kept(self) -> list[str]:
        return self._with("kept")

    @property
    def failed(self) -> list[str]:
        return self._with("failed")

    @property
    def error(self) -> str:
        """Message and hint as one text; empty after a success."""
        error = self.data.get("error") or {}
        return f"{error.get('message', '')}\n{error.get('hint') or ''}".strip()

    def reason(self, source: str) -> str:
        return str(self.units[source]["reason"])

    def changes(self, source: str) -> list[str]:
        return [change["name"] for change in self.units[source]["changes"]]

    # What cargo reads

    @property
    def directives(self) -> list[tuple[str, str]]:
        """Each line of stdout as key and value; a line of any other form fails the test."""
        found = []
        for line in self.stdout.splitlines():
            prefix, _, rest = line.partition(":")
            assert prefix == "cargo", f"not a directive: {line!r}"
            key, equals, value = rest.removeprefix(":").partition("=")
            assert equals, f"a directive without a value: {line!r}"
            found.append((key, value))
        return found

    def values(self, key: str) -> list[str]:
        return [value for found, value in self.directives if found == key]

    @property
    def watched(self) -> list[str]:
        return self.values("rerun-if-changed")


class Workspace:
    """A crate `prover` with kernels in kernels/ and headers in kernels/include, in a folder of its own.

    `env` is the whole environment that the tool gets: PATH, HOME, and what a test adds.
    """

    def __init__(self, root: Path, crate: str = "crate") -> None:
        self.root = root
        self.crate = root / crate
        self.out = root / "out"
        self.log = root / "nvcc.log"
        self.toolkit = FakeToolkit(root / "cuda-13.0")
        self.settings: dict[str, Any] = {
            "name": "kernels",
            "sources": ["kernels/*.cu"],
            "include": ["kernels/include"],
            "arch": ["80"],
        }
        (self.crate / "kernels/include").mkdir(parents=True)
        (self.crate / "src").mkdir()
        self.write("Cargo.toml", CARGO_TOML.format(name="prover"))
        self.config()
        (root / "home").mkdir()
        self.out.mkdir()
        self.env = {
            "PATH": f"{self.toolkit.root}/bin:/usr/bin:/bin",
            "HOME": str(root / "home"),
            "PYTHONPATH": str(REPOSITORY),
            "FAKE_NVCC_LOG": str(self.log),
        }

    # The crate's files

    def path(self, name: str) -> Path:
        return self.crate / name

    def write(self, name: str, text: str) -> Path:
        path = self.crate / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def edit(self, name: str, old: str, new: str) -> Path:
        path = self.crate / name
        text = path.read_bytes().decode()
        assert old in text, f"{old!r} is not in {name}"
        return self.write(name, text.replace(old, new))

    def edit_keeping_mtime(self, name: str, old: str, new: str) -> None:
        """New bytes under the old size and modification time: what a restored backup or a fast editor leaves."""
        assert len(old) == len(new)
        stat = (self.crate / name).stat()
        path = self.edit(name, old, new)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def remove(self, name: str) -> None:
        (self.crate / name).unlink()

    def rename(self, old: str, new: str) -> None:
        (self.crate / new).parent.mkdir(parents=True, exist_ok=True)
        (self.crate / old).rename(self.crate / new)

    def touch(self, name: str) -> None:
        (self.crate / name).touch()

    def set_mtime(self, name: str, seconds: float) -> None:
        os.utime(self.crate / name, (seconds, seconds))

    def symlink(self, name: str, target: str) -> None:
        """Makes or retargets the link at `name`."""
        path = self.crate / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.symlink_to(target)

    def config(self, **settings: Any) -> None:
        """Sets keys of cudabuild.toml; `None` takes a key away, a dictionary is a table."""
        self.settings.update({key.replace("_", "-"): value for key, value in settings.items()})
        self.settings = {key: value for key, value in self.settings.items() if value is not None}
        self.write("cudabuild.toml", to_toml(self.settings))

    # Running the tool

    def environment(self, changes: dict[str, str | None] | None = None) -> dict[str, str]:
        return {key: value for key, value in {**self.env, **(changes or {})}.items() if value is not None}

    def command(self, *args: str, out: Path | None = None) -> list[str]:
        place = ["--manifest-dir", str(self.crate), "--out", str(out or self.out)]
        return [sys.executable, "-m", "cudabuild", "build", "--json", *place, *args]

    def build(
        self, *args: str, env: dict[str, str | None] | None = None, expect: int | tuple[int, ...] = 0, out: Path | None = None, cwd: Path | None = None
    ) -> Report:
        """One run by hand. `expect` is the exit code, or the possible ones; anything else fails the test with the tool's own words."""
        done = subprocess.run(
            self.command(*args, out=out), cwd=cwd or self.crate, env=self.environment(env), capture_output=True, text=True,
            timeout=60, check=False, errors="surrogateescape", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        _check_exit(done, expect)
        data = json.loads(done.stdout) if done.stdout.strip() else {}
        return Report(done.returncode, done.stdout, done.stderr, data)

    def cargo_environment(self) -> dict[str, str]:
        """What cargo sets for a build script, as far as the tool may look."""
        return {
            "OUT_DIR": str(self.out), "CARGO_MANIFEST_DIR": str(self.crate), "CARGO_PKG_NAME": "prover",
            "CARGO_MANIFEST_PATH": str(self.crate / "Cargo.toml"), "CARGO_PKG_VERSION": "0.1.0", "CARGO": "/usr/bin/cargo",
            "PROFILE": "debug", "OPT_LEVEL": "0", "DEBUG": "true", "NUM_JOBS": "2", "HOST": "x86_64-unknown-linux-gnu",
            "TARGET": "x86_64-unknown-linux-gnu", "CARGO_CFG_TARGET_OS": "linux", "CARGO_CFG_TARGET_ENV": "gnu",
            "CARGO_CFG_TARGET_ARCH": "x86_64", "CARGO_CFG_TARGET_FAMILY": "unix", "RUSTC": "rustc",
        }  # fmt: skip

    def build_under_cargo(
        self, *args: str, env: dict[str, str | None] | None = None, expect: int | tuple[int, ...] = 0, pass_fds: tuple[int, ...] = ()
    ) -> Report:
        """One run as a build script makes it: place and names come from the environment, stdout is for cargo."""
        done = subprocess.run(
            [sys.executable, "-m", "cudabuild", "build", *args], cwd=self.crate, capture_output=True, text=True, timeout=60,
            env=self.environment({**self.cargo_environment(), **(env or {})}), check=False, stdin=subprocess.DEVNULL,
            pass_fds=pass_fds,
        )  # fmt: skip
        _check_exit(done, expect)
        report = self.out / "cudabuild/report.json"
        data = json.loads(report.read_text()) if report.exists() else {}
        return Report(done.returncode, done.stdout, done.stderr, data)

    def start(self, *args: str, env: dict[str, str | None] | None = None) -> subprocess.Popen[str]:
        """A run to be interrupted, in a session of its own."""
        return subprocess.Popen(
            self.command(*args), cwd=self.crate, env=self.environment(env), text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def build_in_fork(
        self, *args: str, env: dict[str, str | None] | None = None, out: Path | None = None, timeout: int = 60
    ) -> Report:
        """As `build`, in a forked child of this process, where the interpreter has already loaded the tool: ten times as fast.
        The parent never runs a build, so the child starts with the state of a new process."""
        import cudabuild.__main__

        streams = [self.root / "fork.stdout", self.root / "fork.stderr"]
        child = os.fork()
        if child == 0:
            code = 70
            try:
                for number, path in enumerate(streams, 1):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
                sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
                os.environ.clear()
                os.environ.update(self.environment(env))
                os.chdir(self.crate)
                signal.alarm(timeout)
                code = cudabuild.__main__.main(self.command(*args, out=out)[3:])
                sys.stdout.flush()
                sys.stderr.flush()
            except SystemExit as exit:
                code = exit.code if isinstance(exit.code, int) else 1
            except BaseException:  # noqa: BLE001 (whatever happens, the child must not go on as a second test run)
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stdout, stderr = (path.read_text(errors="surrogateescape") for path in streams)
        return Report(code, stdout, stderr, json.loads(stdout) if stdout.strip() else {})

    # What happened

    def nvcc_calls(self, kind: str = "compile") -> list[dict[str, Any]]:
        """The calls of the fake nvcc so far."""
        if not self.log.exists():
            return []
        calls = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [call for call in calls if call["kind"] == kind]

    def compiles(self) -> list[str]:
        """The sources compiled so far, in order; forgets them, so that the next call tells of the builds after this one."""
        sources = [call["source"] for call in self.nvcc_calls()]
        self.forget_calls()
        return sorted(sources)

    def forget_calls(self) -> None:
        self.log.unlink(missing_ok=True)

    def archive_path(self, out: Path | None = None) -> Path:
        return (out or self.out) / f"lib{self.settings['name']}.a"

    def archive_members(self, out: Path | None = None) -> dict[str, bytes]:
        found = archive.members(self.archive_path(out).read_bytes())
        assert len(dict(found)) == len(found), f"a member comes twice: {[name for name, _ in found]}"
        return dict(found)

    def archive_text(self, out: Path | None = None) -> str:
        """The text of all objects, for markers."""
        return b"".join(self.archive_members(out).values()).decode("utf-8", "surrogateescape")

    def wait_for(self, condition: Any, seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.01)


def _check_exit(done: subprocess.CompletedProcess[str], expect: int | tuple[int, ...]) -> None:
    codes = (expect,) if isinstance(expect, int) else expect
    assert done.returncode in codes, f"exit code {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"


def to_toml(settings: dict[str, Any]) -> str:
    """Plain values first, tables after; JSON's strings and lists are TOML's."""
    lines = [f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items() if not isinstance(value, dict)]
    return "\n".join(lines + list(_tables(settings, ""))) + "\n"


def _tables(settings: dict[str, Any], prefix: str) -> list[str]:
    lines: list[str] = []
    for key, value in settings.items():
        if isinstance(value, dict):
            plain = [f"{_key(k)} = {json.dumps(v, ensure_ascii=False)}" for k, v in value.items() if not isinstance(v, dict)]
            lines += [f"[{prefix}{_key(key)}]"] * bool(plain) + plain + _tables(value, f"{prefix}{_key(key)}.")
    return lines


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() else json.dumps(key)
