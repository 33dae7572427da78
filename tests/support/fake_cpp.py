"""This module is the fake nvcc's preprocessor: small, but true in what decides which files are read and what text comes out.

It knows object-like macros, conditionals, `#include` by gcc's search order, `__has_include`, `#error`, `#line`, `#pragma once` with gcc's
notion of "the same file" (equal bytes, size and whole-second mtime, so that the second of two twins is not reported as read), and
drops comments, so that an edit of a comment gives the same object. Functions take the working folder and the environment as
arguments: a test can ask, inside its own process, what a run would have written.

Only modules that the interpreter loads anyway are imported (`re` alone would double the fake's start-up time).
"""

import os

Macros = dict[str, str]


class CompileError(Exception):
    """What ends a compile: the exit code, and the text for stderr."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def split_identifiers(line: str) -> list[str]:
    """The line in pieces; identifiers, numbers and string literals are one piece each."""
    pieces, at = [], 0
    while at < len(line):
        end = at + 1
        if line[at] == '"':
            while end < len(line) and line[end] != '"':
                end += 2 if line[end] == "\\" else 1
            end = min(end + 1, len(line))
        elif line[at].isalnum() or line[at] == "_":
            while end < len(line) and (line[end].isalnum() or line[end] == "_"):
                end += 1
        pieces.append(line[at:end])
        at = end
    return pieces


def expand(line: str, macros: Macros, hidden: frozenset[str] = frozenset()) -> str:
    if not any(name in line for name in macros):
        return line
    return "".join(
        expand(macros[piece], macros, hidden | {piece}) if piece in macros and piece not in hidden else piece
        for piece in split_identifiers(line)
    )


def without_comments(text: str) -> list[str]:
    """The lines of a file with comments replaced by a space; a continued line is joined, and keeps its line count."""
    lines, inside, held, joined = [], False, "", 0
    for line in text.split("\n"):
        if line.endswith("\\"):
            held, joined = held + line[:-1], joined + 1
            continue
        line, held = held + line, ""
        if inside or "//" in line or "/*" in line:
            line, inside = _strip_line(line, inside)
        lines.append(line)
        lines.extend([""] * joined)
        joined = 0
    return lines


def _strip_line(line: str, inside: bool) -> tuple[str, bool]:
    kept, at = "", 0
    while at < len(line):
        if inside:
            end = line.find("*/", at)
            if end < 0:
                return kept, True
            at, inside, kept = end + 2, False, kept + " "
        elif line[at] == '"':
            end = at + 1
            while end < len(line) and line[end] != '"':
                end += 2 if line[end] == "\\" else 1
            kept += line[at : end + 1]
            at = end + 1
        elif line.startswith("//", at):
            break
        elif line.startswith("/*", at):
            at, inside = at + 2, True
        else:
            kept += line[at]
            at += 1
    return kept, inside


class SearchPath:
    """gcc's include search: `quote` folders serve only #include "x"; `bracket` is -I then CPATH; `system` is -isystem then
    CPLUS_INCLUDE_PATH. A folder that is missing or comes twice is dropped, and -isystem beats -I, as in gcc."""

    def __init__(self, cwd: str, quote: list[str], bracket: list[str], system: list[str]) -> None:
        self.cwd = cwd
        system = self._distinct(system, set())
        taken = {self._identity(folder) for folder in system}
        self.bracket = self._distinct(bracket, taken) + system
        self.quote = self._distinct(quote, set())

    def _identity(self, folder: str) -> tuple[int, int] | None:
        try:
            found = os.stat(os.path.join(self.cwd, folder))
        except OSError:
            return None
        return (found.st_dev, found.st_ino)

    def _distinct(self, folders: list[str], taken: set[tuple[int, int] | None]) -> list[str]:
        kept, seen = [], set(taken)
        for folder in folders:
            identity = self._identity(folder)
            if identity is not None and identity not in seen:
                seen.add(identity)
                kept.append(folder)
        return kept

    def find(self, name: str, quoted: bool, includer: str) -> str | None:
        """The path as gcc spells it: the folder as given, a slash, the name."""
        if name.startswith("/"):
            return name if os.path.isfile(name) else None
        folders = [os.path.dirname(includer), *self.quote] if quoted else []
        for folder in folders + self.bracket:
            spelled = name if not folder else folder + name if folder.endswith("/") else f"{folder}/{name}"
            if os.path.isfile(os.path.join(self.cwd, spelled)):
                return spelled
        return None


class Pass:
    """One preprocessing pass: `reads` are the files as spelled, in order of first appearance; `lines` is the text."""

    def __init__(self, search: SearchPath, macros: Macros) -> None:
        self.search = search
        self.macros = dict(macros)
        self.reads: list[str] = []
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.mistakes: list[CompileError] = []
        self._once: set[tuple[int, int, bytes]] = set()
        self._once_bytes: set[bytes] = set()
        self._depth = 0

    def read(self, spelled: str) -> None:
        path = os.path.join(self.search.cwd, spelled)
        with open(path, "rb") as file:
            content = file.read()
            stat = os.fstat(file.fileno())
        stamp = (stat.st_size, int(stat.st_mtime), content)
        if stamp in self._once:
            return
        if spelled not in self.reads:
            self.reads.append(spelled)
        # gcc would read a twin with another mtime again; its declarations are the same ones, so they change no object.
        repeated = content in self._once_bytes
        self._depth += 1
        if self._depth > 50:
            raise CompileError(1, f"{spelled}:1:1: fatal error: #include nested depth 50 exceeds maximum\n")
        self._lines(spelled, content.decode("utf-8", "surrogateescape"), repeated, stamp)
        self._depth -= 1

    def _lines(self, spelled: str, text: str, repeated: bool, stamp: tuple[int, int, bytes]) -> None:
        branches: list[list[bool]] = []  # of each open #if: the outer text is live, a branch was taken, this branch is live
        for number, line in enumerate(without_comments(text), 1):
            live = branches[-1][2] if branches else True
            word = line.lstrip()
            if word.startswith("#"):
                name, rest = (word[1:].strip().split(None, 1) + ["", ""])[:2]
                if not self._branch(branches, live, name, rest, spelled) and live:
                    if name == "pragma" and rest == "once":
                        self._once.add(stamp)
                        self._once_bytes.add(stamp[2])
                    else:
                        self._directive(name, rest, spelled, number)
            elif live and word and not repeated:
                self._text(line, spelled, number)
        if branches:
            raise CompileError(1, f"{spelled}:{number}:2: error: unterminated #if\n")

    def _branch(self, branches: list[list[bool]], live: bool, name: str, rest: str, spelled: str) -> bool:
        if name in ("if", "ifdef", "ifndef"):
            taken = live and self._holds(name, rest, spelled)
            branches.append([live, taken, taken])
        elif name in ("elif", "else"):
            outer, taken, _ = branches[-1]
            now = outer and not taken and (name == "else" or self._holds("if", rest, spelled))
            branches[-1] = [outer, taken or now, now]
        elif name == "endif":
            branches.pop()
        else:
            return False
        return True

    def _holds(self, name: str, rest: str, spelled: str) -> bool:
        if name != "if":
            return (rest.split()[0] in self.macros) == (name == "ifdef")
        rest = expand(self._without_defined(rest), self.macros)
        for call in ("__has_include(", "__has_include ("):
            while call in rest:
                before, _, after = rest.partition(call)
                target, _, after = after.partition(")")
                target = target.strip()
                found = self.search.find(target[1:-1], target.startswith('"'), spelled)
                rest = f"{before}{int(found is not None)}{after}"
        python = ""
        for piece in split_identifiers(rest):
            unknown = piece[0].isalpha() or piece[0] == "_"
            python += " 0 " if unknown else piece.rstrip("LlUu") if piece[0].isdigit() else piece
        python = python.replace("&&", " and ").replace("||", " or ").replace("!=", "<>").replace("!", " not ")
        return bool(eval(python.replace("<>", "!="), {"__builtins__": {}}))

    def _without_defined(self, rest: str) -> str:
        """The condition with each `defined X` and `defined(X)` answered, before macros are expanded."""
        pieces = [piece for piece in split_identifiers(rest) if not piece.isspace()]
        text, at = "", 0
        while at < len(pieces):
            if pieces[at] == "defined":
                bracket = pieces[at + 1] == "("
                text += f" {int(pieces[at + 1 + bracket] in self.macros)} "
                at += 4 if bracket else 2
            else:
                text += pieces[at]
                at += 1
        return text

    def _directive(self, name: str, rest: str, spelled: str, number: int) -> None:
        if name == "include":
            if rest[:1] not in '"<':
                rest = expand(rest, self.macros).strip()
            target = rest[1 : rest.find('"' if rest[0] == '"' else ">", 1)]
            found = self.search.find(target, rest[0] == '"', spelled)
            if found is None:
                message = f"fatal error: {target}: No such file or directory\n{number:5} | #include {rest}\n"
                raise CompileError(1, f"{spelled}:{number}:10: {message}compilation terminated.\n")
            self.read(found)
        elif name == "define":
            key, _, value = rest.partition(" ")
            self.macros[key] = value.strip()
        elif name == "undef":
            self.macros.pop(rest, None)
        elif name == "error":
            raise CompileError(1, f"{spelled}:{number}:2: error: #error {rest}\n")
        elif name == "warning":
            self._warn(f"{spelled}:{number}:2: warning: #warning {rest} [-Wcpp]\n")

    def _text(self, line: str, spelled: str, number: int) -> None:
        places = {"__FILE__": f'"{spelled}"', "__LINE__": str(number)}
        text = " ".join(expand(line, {**places, **self.macros}).split())
        if "SYNTAX_ERROR" in text:
            self.mistakes.append(CompileError(2, f'{spelled}({number}): error: identifier "SYNTAX_ERROR" is undefined\n\n'))
        if "PTXAS_ERROR" in text:
            self.mistakes.append(CompileError(255, "ptxas fatal   : Ptx assembly aborted due to errors\n"))
        if text.startswith("WARN "):
            self._warn(f"{spelled}({number}): warning #177-D: {text[5:]}\n\n")
        self.lines.append(text)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
