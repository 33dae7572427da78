"""This module checks the GPU and its driver against the toolkit. Building needs neither; running does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudabuild.checks.finding import Finding, Gpus, Seen, release
from cudabuild.host import Environment, run, search_path

_GPU = re.compile(r"^(.+), (\d+\.\d+), ([\d.]+)$", re.MULTILINE)
_CUDA = re.compile(r"^CUDA (?:\w+ )?Version\s*:\s*(\d+\.\d+)", re.MULTILINE)


def look(env: Environment, patience: float) -> Gpus:
    """Ask nvidia-smi. It can take a second, so this runs beside the other checks."""
    found = search_path("nvidia-smi", env.peek("PATH"))
    if not found:
        return Gpus(problem="nvidia-smi is not on PATH")
    try:
        query = [found[0], "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
        listed = run(query, env=env.copy(), timeout=patience)
        if listed.returncode != 0:
            said = " ".join((listed.stdout + listed.stderr).split())
            return Gpus(problem=f"nvidia-smi failed with exit code {listed.returncode}: {said}", broken=True)
        details = run([found[0], "-q", "-d", "COMPUTE"], env=env.copy(), timeout=patience)
    except OSError as error:
        return Gpus(problem=f"nvidia-smi {error.strerror or error}", broken=True)
    gpus = _GPU.findall(listed.stdout)
    if not gpus:
        return Gpus(problem="nvidia-smi lists none")
    cuda = _CUDA.search(details.stdout)
    return Gpus(tuple((name, capability) for name, capability, _ in gpus), gpus[0][2], cuda[1] if cuda else "")


def gpu(seen: Seen) -> Iterator[Finding]:
    gpus = seen.gpus()
    if gpus.broken:
        cure = "builds do not need it, but arch = native and programs do: install or reload the driver"
        yield Finding("gpu", "warning", "GPU", "the driver does not answer", gpus.problem, cure)
        return
    if not gpus.names:
        yield Finding("gpu", "note", "GPU", f"none seen ({gpus.problem}); builds need none, arch = native does")
        return
    counts = {one: gpus.names.count(one) for one in gpus.names}
    names = [
        f"{f'{count} x ' * (count > 1)}{name} (sm_{cap.replace('.', '')})" for (name, cap), count in counts.items()
    ]
    driver = f"driver {gpus.driver}" + (f", for CUDA up to {gpus.cuda}" if gpus.cuda else "")
    yield Finding("gpu", "ok", "GPU", f"{', '.join(names)}; {driver}")
    if seen.nvcc is None:
        return
    lacking = [number for number in gpus.numbers() if number not in seen.available]
    if lacking:
        yield Finding(
            "gpu-arch", "warning", "GPU", "",
            f"nvcc {seen.version} has no architecture {' or '.join(lacking)}, which this machine's GPU is",
            "choose a toolkit that has it; an older GPU is also left out by toolkits that are too new",
        )  # fmt: skip
    yield from _driver(gpus, seen.version)


def _driver(gpus: Gpus, version: str) -> Iterator[Finding]:
    """A driver runs programs of every older CUDA, and machine code of its own major version; PTX it compiles itself."""
    toolkit, driver = release(version), release(gpus.cuda)
    if not driver or toolkit <= driver:
        return
    what = f"the toolkit is {version}, and the driver {gpus.driver} is for CUDA up to {gpus.cuda}"
    cure = f"update the driver, or use a toolkit up to {gpus.cuda}"
    if toolkit[0] > driver[0]:
        yield Finding("driver", "warning", "GPU", "", f"{what}: programs built here do not start here", cure)
    else:
        yield Finding(
            "driver", "warning", "GPU", "", f"{what}: this driver may not load PTX built here; machine code it runs",
            f"name this machine's GPU in `arch` ({' '.join(gpus.numbers())}); or {cure}",
        )  # fmt: skip
