"""This script makes a synthetic record of many units of 1,500 headers, and measures the decision over it.

    python scale.py make FOLDER UNITS      writes the files and the record
    python scale.py decide FOLDER UNITS    one decision over all, as a build with nothing to do makes it; prints time and memory
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

STARTED = time.perf_counter()

import msgspec

from cudabuild.cache import record as records
from cudabuild.cache.decisions import decide
from cudabuild.cache.keys import Reading, Request
from cudabuild.cache.reading import Disk
from cudabuild.cache.record import Made, Record
from cudabuild.files import Digests
from cudabuild.graph.units import Unit
from cudabuild.roots import Roots

HEADERS = 1500
SPREAD = 200  # units read different 1,500 of the 1,700 headers
REQUEST = Request(
    source="", flags=("-O3",) * 20, environment=(), tools=tuple((f"tool{number}", "d" * 64) for number in range(12)),
    commands="c" * 64,
)  # fmt: skip


def make(folder: Path, units: int) -> None:
    crate, out = folder / "crate", folder / "out"
    (crate / "inc").mkdir(parents=True)
    out.mkdir()
    for number in range(HEADERS + SPREAD):
        (crate / f"inc/h{number}.cuh").write_text(f"{number}")
    for number in range(units):
        (out / f"{number}.o").write_text("object")
    time.sleep(0.2)  # digests of files younger than the clock's grain are not remembered
    digests = Digests({})
    texts = [(f"@crate/inc/h{number}.cuh", digests.of(str(crate / f"inc/h{number}.cuh")) or "") for number in range(HEADERS + SPREAD)]
    absent = tuple(f"@crate/absent{number}" for number in range(300))
    made = {}
    for number in range(units):
        source, first = f"@crate/{number}.cu", number * 7 % SPREAD
        made[source] = Made(
            request=msgspec.structs.replace(REQUEST, source=source),
            reading=Reading(files=tuple(texts[first : first + HEADERS]), absent=absent),
            object=digests.of(str(out / f"{number}.o")) or "", output="", milliseconds=1,
        )  # fmt: skip
    records.save(str(out / "record.json"), Record(made=made, digests=digests.used()))


def decide_all(folder: Path, units: int) -> None:
    out = str(folder / "out")
    record = records.load(f"{out}/record.json")
    roots = Roots(str(folder / "crate"), out)
    disk = Disk(Digests(record.digests))
    kept = 0
    for number in range(units):
        made = record.made[f"@crate/{number}.cu"]
        unit = Unit(f"{number}.cu", "cuda", str(number))
        kept += decide(unit, REQUEST.flags, made.request, made, f"{out}/{number}.o", disk, roots).action == "keep"
    assert kept == units
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"decision over {units} units of {HEADERS} headers: {time.perf_counter() - STARTED:.2f} s, {memory:.0f} MB "
        "(budget for 2000: 2 s, 300 MB)"
    )


if __name__ == "__main__":
    {"make": make, "decide": decide_all}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
