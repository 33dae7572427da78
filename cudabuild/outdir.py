"""This module is the folder that one crate is built in: its layout, its lock, and what must not stay in it.

    <out>/lib<name>.a                 the library
    <out>/cudabuild/record.json       what the last build made, under which keys
    <out>/cudabuild/report.json       what the last build did
    <out>/cudabuild/obj/              one object a unit
    <out>/cudabuild/run-<id>/         the last build's scripts and logs, one folder a compiled unit
    <out>/cudabuild/stamp             announced to cargo; `cudabuild invalidate` touches it
    <out>/cudabuild/lock              held while a build writes here
    <out>/cudabuild/.cudabuild        says that the folder is cudabuild's; made before all else

`--out` may name any folder, so what is not known to be cudabuild's is refused whole, and only names of its own form are removed.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from cudabuild import locks
from cudabuild.errors import BuildFailed, ConfigError, CudabuildError
from cudabuild.files import read

_REBUILD = b"rebuild\n"
_HALF = re.compile(r"(record\.json|\.lib.+\.a)\.\d+\.tmp")
_SCRATCH = re.compile(r"run-[0-9a-f]+-[0-9a-f]+")
_OBJECT = re.compile(r".+-[0-9a-f]{8}\.o(\.\d+\.tmp)?")
_RECORD = b'{"record":{"format":'
_REPORT = b'{\n  "schema": '


class NotOurs(ConfigError):
    """Something in the place of the build belongs to somebody else. Nothing there is touched, not even for the report."""


class OutDir(msgspec.Struct, frozen=True):
    root: str

    @property
    def own(self) -> str:
        return os.path.join(self.root, "cudabuild")

    @property
    def record(self) -> str:
        return os.path.join(self.own, "record.json")

    @property
    def report(self) -> str:
        return os.path.join(self.own, "report.json")

    @property
    def stamp(self) -> str:
        return os.path.join(self.own, "stamp")

    @property
    def objects(self) -> str:
        return os.path.join(self.own, "obj")

    @property
    def links(self) -> str:
        """A folder for library names that the toolkit lacks."""
        return os.path.join(self.own, "lib")

    def archive(self, name: str) -> str:
        return os.path.join(self.root, f"lib{name}.a")

    def object(self, unit_name: str) -> str:
        return os.path.join(self.objects, f"{unit_name}.o")

    def check(self) -> None:
        """Raise NotOurs when another program, or a user, has the folder."""
        for folder in (self.own, self.objects, self.links):
            if os.path.islink(folder):
                raise NotOurs(f"{folder} is a symlink: builds do not write through it", "remove it, or name another folder with --out")
        if not (self._entries(self.own) == [] or self._is_marked or self._begins(self.report, _REPORT)):
            raise NotOurs(
                f"{self.own} is not cudabuild's: it holds other files and no {os.path.basename(self._marker)}",
                "name another folder with --out, or remove that one",
            )

    def check_library(self, name: str) -> None:
        """Raise NotOurs when a library of that name is there and no build has ever run here."""
        if os.path.lexists(self.archive(name)) and not self._is_marked:
            raise NotOurs(
                f"{self.archive(name)} is there already, and no build of cudabuild made it",
                "remove it, set another `name`, or name another folder with --out",
            )

    @property
    def _marker(self) -> str:
        return os.path.join(self.own, ".cudabuild")

    @property
    def _is_marked(self) -> bool:
        """Folders of the first releases have no marker but a record."""
        return os.path.isfile(self._marker) or self._begins(self.record, _RECORD)

    def _begins(self, path: str, start: bytes) -> bool:
        """Whether a file begins so, as far as it was written before a build was killed."""
        data = read(path)
        return data is not None and start.startswith(data[: len(start)])

    def _make(self) -> None:
        self.check()
        os.makedirs(self.own, exist_ok=True)
        if not os.path.exists(self._marker):
            with open(self._marker, "wb"):
                pass

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the folder against other builds. The kernel frees the lock of a dead holder, so nobody waits for one.

        Cargo never builds into one OUT_DIR twice at a time, so a file system without locks costs nothing but the protection
        against a build by hand meanwhile.
        """
        self._make()
        path = os.path.join(self.own, "lock")
        try:
            lock = locks.take(path)
            if lock is None:
                print(f"cudabuild: waiting for another build in {self.root}", file=sys.stderr, flush=True)
                lock = locks.take(path, wait=True)
        except locks.NoLocks:
            lock = None
        try:
            if lock is not None:
                self._remove_halves()
            yield
        finally:
            if lock is not None:
                lock.release()

    def _remove_halves(self) -> None:
        """Files that a killed build did not come to rename. Nobody else writes here meanwhile."""
        for folder in (self.root, self.own):
            for entry in self._entries(folder):
                if _HALF.fullmatch(entry):
                    os.unlink(os.path.join(folder, entry))

    def keep_report(self, text: bytes) -> None:
        """Replace report.json. A folder that cannot be written, or is not ours, has its own error by now. One that holds nothing
        else is not marked: `check_library` asks whether a build has run.

        The old one is removed first: to rename over a file, or to truncate it, makes ext4 write to the disk at once, which took
        longer than all else in a build with nothing to do.
        """
        try:
            self.check()
            os.makedirs(self.own, exist_ok=True)
            if os.path.lexists(self.report):
                os.unlink(self.report)
            with open(self.report, "wb") as file:
                file.write(text)
        except (OSError, NotOurs):
            pass

    def make_stamp(self) -> None:
        """Have a stamp that is older than any run of the build script; what it asked for is done."""
        try:
            if not os.path.exists(self.stamp) or os.path.getsize(self.stamp):
                with open(self.stamp, "wb"):
                    pass
                os.utime(self.stamp, (0, 0))
        except OSError:
            pass  # cargo is then not told of it; only `invalidate` misses it

    def invalidate(self, *, rebuild: bool) -> None:
        """Make cargo run the build script once more; with `rebuild` that run uses nothing that was made before."""
        with open(self.stamp, "wb") as file:
            file.write(_REBUILD if rebuild else b"")

    @property
    def rebuild_asked(self) -> bool:
        return read(self.stamp) == _REBUILD

    def new_scratch(self) -> str:
        """A folder for this build's compiles, under a name that no earlier build used: an nvcc that outlived a killed build
        cannot write into this one. Those of earlier builds are removed."""
        self._remove(entry for entry in self._entries(self.own) if _SCRATCH.fullmatch(entry))
        scratch = os.path.join(self.own, f"run-{os.getpid():x}-{time.time_ns():x}")
        os.makedirs(scratch)
        return scratch

    def remove_scratch(self, scratch: str) -> None:
        self._remove([os.path.basename(scratch)])

    def remove_intermediates(self, scratch: str) -> None:
        """Keep the scripts and logs of a build that ended; its intermediate files are tens of megabytes a unit."""
        for attempt in self._entries(scratch):
            for unit in self._entries(os.path.join(scratch, attempt)):
                _clear(os.path.join(scratch, attempt, unit, "tmp"))

    def remove_library(self, file_name: str) -> None:
        """A library that got another name is not left for a linker to find."""
        path = os.path.join(self.root, file_name)
        if os.path.exists(path):
            os.unlink(path)

    def remove_old_objects(self, unit_names: Iterable[str]) -> None:
        """Sources that are gone leave nothing behind."""
        current = {f"{name}.o" for name in unit_names}
        for entry in self._entries(self.objects):
            path = os.path.join(self.objects, entry)
            if entry not in current and _OBJECT.fullmatch(entry) and (os.path.islink(path) or not os.path.isdir(path)):
                os.unlink(path)

    def _entries(self, folder: str) -> list[str]:
        return os.listdir(folder) if os.path.isdir(folder) else []

    def _remove(self, names: Iterable[str]) -> None:
        import shutil

        for name in names:
            shutil.rmtree(os.path.join(self.own, name), ignore_errors=True)


def _clear(folder: str) -> None:
    import shutil

    if os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)


def disk_error(error: OSError, out: str) -> CudabuildError:
    """An operating system's refusal in the folder of the build, in words; other errors are bugs and pass through."""
    where = str(error.filename or out)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ConfigError(f"{where} cannot be written: {error.strerror}", f"builds write to {out}; give it to this user")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return BuildFailed(f"{where} cannot be written: {error.strerror}", "free some space and build again")
    return BuildFailed(f"{where}: {error.strerror or error}", "nothing was published; build again")
