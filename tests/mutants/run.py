"""This module breaks the tool in one way at a time and demands that the tests named for it fail.

    python tests/mutants/run.py [PART OF A NAME]

It works on a copy. A mutation whose text is not found once in its file is an error, so that the list cannot rot; so is one that
breaks the program's syntax, for a test that fails of that proves nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutations import MUTATIONS, Mutation

REPOSITORY = Path(__file__).parents[2]


class Copy:
    """A copy of the program and its tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("cudabuild", "tests", "templates"):
            shutil.copytree(REPOSITORY / name, root / name)
        shutil.copy(REPOSITORY / "pyproject.toml", root)

    def test(self, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not nvcc", *tests]
        env = {**os.environ, "PYTHONPATH": str(self.root)}
        return subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)

    def survives(self, mutation: Mutation) -> str:
        """Why the mutation was not caught; empty when it was."""
        path = self.root / "cudabuild" / mutation.file
        before = path.read_text()
        if before.count(mutation.old) != 1:
            return f"its text is {before.count(mutation.old)} times in {mutation.file}"
        after = before.replace(mutation.old, mutation.new)
        compile(after, mutation.file, "exec")
        path.write_text(after)
        try:
            done = self.test(mutation.tests)
        finally:
            path.write_text(before)
        if done.returncode == 0:
            return "no test fails"
        # 1: a test failed. Anything else is a wrong name, or tests that could not even be collected.
        return "" if done.returncode == 1 else f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}"


def main(part: str) -> int:
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for mutation in MUTATIONS:
            if part in mutation.name:
                problem = copy.survives(mutation)
                survivors += bool(problem)
                print(f"{'SURVIVES' if problem else 'caught  '}  {mutation.name}{': ' if problem else ''}{problem}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
