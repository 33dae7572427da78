"""This module is the shared cache as a build uses it: every trouble becomes one warning and a miss."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from cudabuild import locks
from cudabuild.cache import eviction, reading
from cudabuild.cache.keys import Request
from cudabuild.cache.reading import Disk
from cudabuild.cache.record import Made
from cudabuild.cache.store import CacheError, Store, open_store
from cudabuild.config.schema import BuildConfig
from cudabuild.files import Known
from cudabuild.host import Environment
from cudabuild.nvcc.probe import Probe

_SCANS_A_LIMIT = 20  # the store is measured when a twentieth of its limit was added since the last time
# Of the files that a process may have open, mostly 1024: each claim holds one. With so many units to compile, a few done twice
# matter little.
_SHARE_OF_FILES = 4


def default_folder(env: Environment) -> str | None:
    """The user's cache folder, by the XDG base directory specification; None without a home."""
    base = env.get("XDG_CACHE_HOME")
    if not base or not os.path.isabs(base):
        home = env.get("HOME")
        base = os.path.join(home, ".cache") if home else None
    return os.path.join(base, "cudabuild") if base else None


class SharedCache:
    """A store that may be missing, read-only, full or damaged. `warnings` has at most one line: what came of it first.

    With `serve` false nothing is taken from it, and what is made replaces what it has.
    """

    def __init__(self, config: BuildConfig, env: Environment, *, serve: bool = True) -> None:
        self.warnings: list[str] = []
        self._limit = config.cache_size
        self._library = config.name
        self._added = 0
        self._wants_to_write = config.cache_mode == "read-write"
        self._serve = serve
        self._store: Store | None = None
        if config.cache_mode == "off":
            return
        folder = os.path.join(config.crate_root, config.cache_dir) if config.cache_dir else default_folder(env)
        if folder is None:
            self.warnings.append("the cache is off: HOME is not set, and neither is CUDABUILD_CACHE_DIR")
            return
        with self._degrading():
            self._store = open_store(folder, writable=self._wants_to_write)

    @contextmanager
    def _degrading(self) -> Iterator[None]:
        """The one place where trouble with the cache ends."""
        try:
            yield
        except (CacheError, OSError, locks.NoLocks) as error:
            self._warn(f"the cache is not used for all: {error}")

    def _warn(self, text: str) -> None:
        if not self.warnings:
            self.warnings.append(text)

    def digests(self) -> dict[str, Known]:
        return self._store.digests() if self._store else {}

    def probes(self, question: str) -> list[Probe]:
        return self._store.probes(question) if self._store else []

    def keep(self, probe: Probe, digests: Mapping[str, Known]) -> None:
        """Remember what the tools said and what files hold."""
        if self._store is not None and self._store.writable:
            with self._degrading():
                if probe.direct and not self._store.probes(probe.question):
                    self._store.keep_probe(probe)
                self._store.keep_digests(digests)

    def restore(self, request: Request, object_path: str, disk: Disk, real: Callable[[str], str]) -> Made | None:
        """Put the object that a compile of this request would make now at `object_path`; None when it is not known."""
        if self._store is None or not self._serve:
            return None
        with self._degrading():
            for key, known in self._store.readings(request):
                if known.library not in ("", self._library):
                    continue
                if reading.changes(known, disk, real):
                    continue
                found = self._store.fetch(key, object_path)
                if found is not None:
                    return Made(
                        request=request, reading=known, object=found.digest, output=found.output,
                        milliseconds=found.milliseconds,
                    )  # fmt: skip
        return None

    def publish(self, made: Made, object_path: str) -> None:
        """Add what was just compiled, unless nobody could be served with it."""
        if self._store is None or made.reading.untracked or made.reading.unshared:
            return
        if self._store.writable:
            with self._degrading():
                self._added += self._store.publish(made, object_path)
        elif self._wants_to_write:
            self._warn(f"{self._store.root} cannot be written: what was compiled is not kept in the cache")

    @contextmanager
    def claim(self, requests: Sequence[Request]) -> Iterator[frozenset[Request]]:
        """Those of `requests` that nobody else compiles meanwhile; the kernel frees the claims of a dead build.

        On a file system without locks all are ours: then some work may be done twice.
        """
        mine = set(requests)
        with ExitStack() as held:
            if self._store is not None and self._store.writable:
                with self._degrading():
                    for request in requests[: _most_claims()]:
                        lock = locks.take(self._store.claim_path(request))
                        if lock is None:
                            mine.discard(request)
                        else:
                            held.callback(lock.release)
            yield frozenset(mine)

    def wait_for(self, request: Request) -> None:
        """Return when the build that claimed this request has ended, one way or another."""
        if self._store is None or not self._store.writable:
            return
        with self._degrading():
            path = self._store.claim_path(request)
            lock = locks.take(path)
            if lock is None:
                print(f"cudabuild: waiting for another build that compiles {request.source.removeprefix('@crate/')}", file=sys.stderr, flush=True)
                lock = locks.take(path, wait=True)
            if lock is not None:
                lock.release()

    def trim(self) -> None:
        """Keep the store within its limit. Measured only now and then; never waited for."""
        if self._store is None or self._added == 0:
            return
        with self._degrading():
            if self._store.note_added(self._added) * _SCANS_A_LIMIT >= self._limit:
                stored = eviction.entries(self._store)
                # Below the limit by a tenth, so that the next build does not have to do it again.
                if sum(one.size for one in stored) > self._limit:
                    eviction.remove(self._store, eviction.surplus(stored, max_bytes=self._limit * 9 // 10))
                self._store.reset_added()
        self._added = 0


def _most_claims() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 256 if soft == resource.RLIM_INFINITY else soft // _SHARE_OF_FILES
