"""This module is the scratch crate that tests build: verbs that change it, and the command line run on it from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import archive
from tool import Done, run_fork, run_process
from toolkit import FakeToolkit, install_host_compiler

REPOSITORY = Path(__file__).parents[2]

Changes = dict[str, "str | None"]
"""Environment variables to set, or with None to take away."""
Codes = int | tuple[int, ...]

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
    def restored(self) -> list[str]:
        return self._with("restored")

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

    `env` is the whole environment that the tool gets: PATH, HOME, and what a test adds. Runs are new processes, or with `forked`
    the fast kind of tool.py.
    """

    def __init__(self, root: Path, crate: str = "crate", *, forked: bool = False) -> None:
        self.root, self.forked = root, forked
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
        self.system_path = f"{install_host_compiler(root / 'host/gcc').parent}:/usr/bin:/bin"
        self.env = {
            "PATH": f"{self.toolkit.root}/bin:{self.system_path}",
            "HOME": str(root / "home"),
            "PYTHONPATH": str(REPOSITORY),
            "FAKE_NVCC_LOG": str(self.log),
            "CUDABUILD_CACHE": "off",
        }

    def use_cache(self, folder: Path | None = None, mode: str = "read-write") -> Path:
        """From here on builds use the shared cache in `folder`; without this, most tests are about one OUT_DIR alone."""
        cache = folder or self.root / "cache"
        self.env |= {"CUDABUILD_CACHE": mode, "CUDABUILD_CACHE_DIR": str(cache)}
        return cache

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

    def environment(self, changes: Changes | None = None) -> dict[str, str]:
        return {key: value for key, value in {**self.env, **(changes or {})}.items() if value is not None}

    def arguments(self, *args: str, out: Path | None = None) -> list[str]:
        return ["build", "--json", "--manifest-dir", str(self.crate), "--out", str(out or self.out), *args]

    def build(
        self, *args: str, env: Changes | None = None, expect: Codes = 0, out: Path | None = None, cwd: Path | None = None
    ) -> Report:
        """One run by hand. `expect` is the exit code, or the possible ones; anything else fails with the tool's own words."""
        done = self.run(self.arguments(*args, out=out), cwd or self.crate, self.environment(env))
        _check_exit(done, expect)
        return Report(*done, json.loads(done.stdout) if done.stdout.strip() else {})

    def run(self, arguments: list[str], cwd: Path, env: dict[str, str]) -> Done:
        return run_fork(arguments, cwd, env) if self.forked else run_process(arguments, cwd, env)

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
        self, *args: str, env: Changes | None = None, expect: Codes = 0, pass_fds: tuple[int, ...] = ()
    ) -> Report:
        """One run as a build script makes it: place and names come from the environment, stdout is for cargo."""
        variables = self.environment({**self.cargo_environment(), **(env or {})})
        arguments = ["build", *args]
        if pass_fds:
            done = run_process(arguments, self.crate, variables, pass_fds)
        else:
            done = self.run(arguments, self.crate, variables)
        _check_exit(done, expect)
        report = self.out / "cudabuild/report.json"
        return Report(*done, json.loads(report.read_text()) if report.exists() else {})

    def start(self, *args: str, env: Changes | None = None) -> subprocess.Popen[str]:
        """A run to be interrupted, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "cudabuild", *self.arguments(*args)], cwd=self.crate, env=self.environment(env), text=True,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

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


def _check_exit(done: Done, expect: Codes) -> None:
    codes = (expect,) if isinstance(expect, int) else expect
    assert done.exit_code in codes, f"exit code {done.exit_code}, expected {expect}\n{done.stdout}\n{done.stderr}"


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
