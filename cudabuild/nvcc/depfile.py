"""This module reads the dependency files that nvcc writes.

The format (nvcc 12.4 to 13.5): `target : source \\`, then one dependency a line, indented by four spaces, ` \\` at the line's end.
Only spaces are escaped, as `\\ `; `#` and `$` are bare, the target is not escaped at all, and a backslash in a name is written
as `/`, so such a name is lost. One dependency a line makes a line parser exact where a make parser is not.
"""

from __future__ import annotations

from cudabuild.files import is_utf8


class DepfileError(ValueError):
    """The text is not a whole dependency file."""


def parse(text: str, source: str) -> tuple[str, ...]:
    """The dependencies as nvcc spelled them, the source among them, in order of first appearance.

    Raises DepfileError when the text ends in the middle (nvcc writes the file at once, so half a file means trouble), does not
    name the source, or names a file that no JSON and no line for cargo can name.
    """
    if not text:
        raise DepfileError("it is empty")
    if not text.endswith("\n"):
        raise DepfileError("it ends in the middle")
    lines = text.replace("\r\n", "\n").split("\n")[:-1]
    first = lines[0]
    escaped = source.replace(" ", "\\ ")
    # The target may itself hold " : ", so the source is looked for from the right.
    head = first.removesuffix(" \\")
    if not head.endswith(" : " + escaped):
        raise DepfileError(f"its first line does not end with the source {source!r}: {first!r}")
    names = [source]
    continues = first.endswith(" \\")
    for line in lines[1:]:
        if not continues:
            break  # -MP's stanzas, or other rules, may follow
        if not line.startswith("    "):
            raise DepfileError(f"unexpected line {line!r}")
        continues = line.endswith(" \\")
        name = line[4:-2] if continues else line[4:]
        if not is_utf8(name):
            raise DepfileError(f"{name!r} is not UTF-8; rename the file")
        names.append(name.replace("\\ ", " "))
    if continues:
        raise DepfileError("it ends in the middle")
    return tuple(dict.fromkeys(names))
