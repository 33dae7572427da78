"""This module compiles the units that are not fresh and takes over the objects that can be trusted.

Optimistic read, checked write: nvcc says what it read only when it has ended (-MD costs nothing, a scan before would cost a
tenth of the compile), so afterwards each of those files is checked to have been still since before the compile began. If one
moved, the object may mix two texts: it is thrown away and the unit compiled once more; if one moves again, the build gives up.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable, Sequence

import msgspec

from cudabuild.cache.decisions import Decision
from cudabuild.cache.reading import Disk, Incomplete, take
from cudabuild.cache.record import Made
from cudabuild.elf import holds_hidden_names, is_whole
from cudabuild.errors import BuildFailed, InputsChanged, ToolchainError
from cudabuild.files import Stamp, stamp
from cudabuild.ninja.steps import Outcome, Step, outcome, write
from cudabuild.nvcc import depfile
from cudabuild.nvcc.arguments import compile_command
from cudabuild.nvcc.toolchain import Toolchain
from cudabuild.roots import Roots

_ATTEMPTS = 2
_KILLED = 128 + 9  # what sh reports of a command that got SIGKILL

RunNinja = Callable[[str], str]
"""Runs a build.ninja and returns ninja's own words."""


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one unit: `made` with its object in place, or a failure, or the file that `moved` both times."""

    decision: Decision
    outcome: Outcome
    script: str
    """Runs the compile again."""
    made: Made | None = None
    problem: str = ""
    """Why the object of a compile that ended well is not taken."""
    moved: str = ""


class _Moved(Exception):
    """`read` is all that the compile read, to be looked at before it is run again."""

    def __init__(self, path: str, read: Sequence[str] = ()) -> None:
        super().__init__(path)
        self.path = path
        self.read = read


class _Before:
    """The stamps of files before a compile, as far as the files are known then, and when each was taken."""

    def __init__(self) -> None:
        self._stamps: dict[str, tuple[Stamp | None, int]] = {}

    def note(self, paths: Sequence[str]) -> None:
        for path in paths:
            now = time.time_ns()
            self._stamps[path] = (stamp(path), now)

    def moved_since(self, path: str, started_ns: int) -> bool:
        """Whether a file may have changed since a compile began, at `started_ns` by the file system's clock.

        A stamp taken before settles it whatever the clocks of two file systems say. Without one, or with one too young to
        show a change, the file's own times have to lie before the start.
        """
        after = stamp(path)
        if path in self._stamps:
            before, taken_ns = self._stamps[path]
            if before != after:
                return True
            if before is not None and before.settled_at(taken_ns):
                return False
        return after is not None and after.changed_ns >= started_ns


def compile_units(
    decisions: Sequence[Decision], toolchain: Toolchain, *, folder: str, objects: str, library: str, roots: Roots, disk: Disk,
    pool: int | None, run_ninja: RunNinja,
) -> list[Compiled]:  # fmt: skip
    """Compile each unit in scratch folders below `folder` and put what can be trusted into `objects`, for `library`."""
    results: dict[str, Compiled] = {}
    before = _Before()
    before.note(toolchain.paths)
    for decision in decisions:
        if decision.made is not None:
            before.note([roots.real(name) for name, _ in decision.made.reading.files])
    pending = list(decisions)
    for attempt in range(_ATTEMPTS):
        steps = _steps(pending, toolchain, os.path.join(folder, str(attempt)), roots)
        words = run_ninja(write(steps, os.path.join(folder, str(attempt)), pool))
        outcomes = [outcome(step) for step in steps]
        if all(result.started_ns == 0 for result in outcomes):
            raise ToolchainError(f"ninja could not run the build: {words.strip()}", "`cudabuild doctor` tests ninja")
        disk.forget()
        read_again: list[str] = []
        for decision, step, result in zip(pending, steps, outcomes, strict=True):
            try:
                results[decision.unit.name] = _take_over(
                    decision, step, result, toolchain, objects, library, roots, disk, before
                )
            except _Moved as moved:
                results[decision.unit.name] = Compiled(decision=decision, outcome=result, script=step.script, moved=moved.path)
                read_again += moved.read
        pending = [result.decision for result in results.values() if result.moved]
        if not pending:
            break
        before.note(read_again)  # not earlier: the stamps of before this attempt judge every unit of it
    return list(results.values())


def _steps(decisions: Sequence[Decision], toolchain: Toolchain, folder: str, roots: Roots) -> list[Step]:
    """One nvcc call for each unit. nvcc passes paths through `sh -c` with poor quoting, so it gets them relative to the crate:
    what the folders above are called then does not matter."""
    steps = []
    for decision in decisions:
        unit = decision.unit
        scratch = os.path.join(folder, unit.name)
        near = os.path.relpath(scratch, roots.crate)
        argv = compile_command(
            toolchain.nvcc, decision.flags, unit,
            object=f"{near}/{unit.name}.o", depfile=f"{near}/{unit.name}.d", keep_dir=f"{near}/tmp", seed=toolchain.takes_seed,
        )  # fmt: skip
        steps.append(Step(name=unit.name, summary=unit.source, argv=argv, cwd=roots.crate, folder=scratch, temporary=f"{near}/tmp"))
    return steps


def _take_over(
    decision: Decision, step: Step, result: Outcome, toolchain: Toolchain, objects: str, library: str, roots: Roots, disk: Disk,
    before: _Before,
) -> Compiled:  # fmt: skip
    """Judge one compile by its files. Raises _Moved when an input may have changed under it."""
    if result.exit_code != 0:
        return Compiled(decision=decision, outcome=result, script=step.script)
    object_path = os.path.join(step.folder, f"{decision.unit.name}.o")
    digest = disk.digest(object_path)
    if digest is None or not is_whole(object_path):
        problem = "nvcc ended well but wrote no object" if digest is None else "nvcc ended well but its object is cut off"
        return Compiled(decision=decision, outcome=result, script=step.script, problem=problem)
    try:
        with open(os.path.join(step.folder, f"{decision.unit.name}.d"), encoding="utf-8", errors="surrogateescape") as file:
            reported = depfile.parse(file.read(), decision.unit.source)
    except (OSError, depfile.DepfileError) as error:
        return Compiled(
            decision=decision, outcome=result, script=step.script, problem=f"nvcc ended well but its dependency file cannot be used: {error}"
        )
    try:
        reading, looked_at = take(decision.request, reported, toolchain.search, disk, roots)
    except Incomplete as incomplete:
        raise _Moved(incomplete.path) from incomplete
    files = [roots.real(name) for name, _ in reading.files]
    # The request names the tools by what they were when the build began, which a wait for another build makes long ago.
    swapped = next((path for _, path, known in toolchain.probe.tools if (disk.digest(path) or "") != known), None)
    if swapped is not None:
        raise _Moved(swapped, files)
    moved = next((path for path in (*files, *toolchain.paths, *looked_at) if before.moved_since(path, result.started_ns)), None)
    moved = moved or turned_folder(toolchain.search.outside(files), result.started_ns)
    if moved is not None:
        raise _Moved(moved, [*files, *looked_at])
    if holds_hidden_names(object_path):
        reading = msgspec.structs.replace(reading, library=library)
    os.makedirs(objects, exist_ok=True)
    os.replace(object_path, os.path.join(objects, f"{decision.unit.name}.o"))
    made = Made(
        request=decision.request, reading=reading, object=digest, output=result.output, milliseconds=result.milliseconds
    )
    return Compiled(decision=decision, outcome=result, script=step.script, made=made)


def turned_folder(files: Sequence[str], started_ns: int) -> str | None:
    """A folder or symlink on the way to one of `files` that was put in the place of another since `started_ns`.

    That leaves the files' own times alone. A link that is turned is a new one; a folder that is renamed keeps its mtime and gets
    a new ctime, while one in which something is made or removed gets both.
    """
    ways = {os.path.dirname(file) for file in files}
    for folder in list(ways):
        while (folder := os.path.dirname(folder)) not in ways:
            ways.add(folder)
    for folder in sorted(ways | set(files)):
        try:
            status = os.lstat(folder)
        except OSError:
            return folder
        link = stat.S_ISLNK(status.st_mode)
        if (link or stat.S_ISDIR(status.st_mode)) and status.st_ctime_ns >= started_ns and (link or status.st_mtime_ns < started_ns):
            return folder
    return None


def raise_failures(compiled: Sequence[Compiled], units: int) -> None:
    """Raise for the units that have no object that can be trusted; what was compiled well is kept all the same."""
    failed = [result for result in compiled if result.made is None and not result.moved]
    if failed:
        killed = [result for result in failed if result.outcome.exit_code == _KILLED]
        names = ", ".join(f"{result.decision.unit.source} ({_end(result)})" for result in failed)
        hint = (
            "a killed compiler is mostly one that ran out of memory: lower `jobs` or CUDABUILD_JOBS"
            if killed
            else f"the compiler's messages are above; `sh {shlex.quote(failed[0].script)}` runs the first one again"
        )
        raise BuildFailed(f"{len(failed)} of {units} units failed: {names}", hint)
    moved = sorted({result.moved for result in compiled if result.moved})
    if moved:
        hint = "build again when they are at rest"
        if not all(map(os.path.exists, moved)):
            hint += "; a name with a backslash cannot be followed, for nvcc reports it with a slash"
        raise InputsChanged(f"files kept changing while they were being compiled: {', '.join(moved)}", hint)


def _end(result: Compiled) -> str:
    if result.problem:
        return result.problem
    code = result.outcome.exit_code
    if code is None:
        return "did not end"
    return "killed" if code == _KILLED else f"exit code {code}"
