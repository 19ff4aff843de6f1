"""Reads a preview as a person would, and works out from it alone what the node must look like after the fix."""

from __future__ import annotations

import re
from collections.abc import Mapping

NOTHING = ("(empty)", "(no members)", "not installed", "removed")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@\n")


class Unexplained(AssertionError):
    """A line of a preview that says nothing that could be checked, or a change that no preview has shown."""


class Node:
    """What a preview talks about: files (kind, mode, content) and settings, changed line by line of the preview."""

    def __init__(self, files: Mapping[str, tuple[str, int | None, bytes]], values: Mapping[str, str]) -> None:
        self.files = dict(files)
        self.values = dict(values)
        self.commands: list[str] = []

    def apply(self, preview: str) -> Node:
        lines = preview.splitlines(keepends=True)
        while lines:
            line = lines.pop(0)
            if line.startswith("--- "):
                path = line[4:].removesuffix(" (now)\n")
                self._diff(path, lines.pop(0), lines)
            elif line.startswith("$ "):
                self.commands.append(line[2:].rstrip("\n"))
            else:
                self._line(line.rstrip("\n"))
        return self

    def _line(self, line: str) -> None:
        if new := re.fullmatch(r"(/\S+): new folder, mode (\d{4})", line):
            self.files[new[1]] = ("dir", int(new[2], 8), b"")
        elif new := re.fullmatch(r"(/\S+): new empty file", line):
            self.files[new[1]] = ("file", 0o644, b"")
        elif mode := re.fullmatch(r"(/\S+): mode (\d{4}) → (\d{4})", line):
            kind, was, content = self.files[mode[1]]
            assert was == int(mode[2], 8)
            self.files[mode[1]] = (kind, int(mode[3], 8), content)
        elif link := re.fullmatch(r"link (/\S+): (.*) → (.*)", line):
            kind, _, content = self.files.pop(link[1], ("link", None, b""))
            assert (kind, content.decode()) == ("link", "" if link[2] in NOTHING else link[2])
            if link[3] not in NOTHING:
                self.files[link[1]] = ("link", None, link[3].encode())
        elif change := re.fullmatch(r"(\S.*?): (.*) → (.*)", line):
            name, old, new_value = change.groups()
            now = self.values.get(name)
            assert old in ((now,) if now else NOTHING), f"{name} is {now}, not {old}"
            self.values[name] = "" if new_value in NOTHING else new_value
        else:
            raise Unexplained(line)

    def _diff(self, path: str, plus: str, lines: list[str]) -> None:
        kind, mode, content = self.files.get(path, ("file", 0o644, b""))
        old, new = content.decode("latin-1").splitlines(keepends=True), []
        place = 0
        while lines and (hunk := _HUNK.fullmatch(lines[0])):
            lines.pop(0)
            start = int(hunk[1]) - (0 if hunk[2] == "0" else 1)
            new += old[place:start]
            place = start
            while lines and lines[0][0] in " +-\\" and not lines[0].startswith("--- "):
                mark, text = lines[0][0], lines.pop(0)[1:].encode().decode("latin-1")
                if mark == "\\":
                    continue
                if lines and lines[0].startswith("\\ no newline"):
                    text = text.removesuffix("\n")
                if mark in " -":
                    assert old[place] == text, f"{path}: {old[place]!r} is shown as {text!r}"
                    place += 1
                if mark in " +":
                    new.append(text)
        if plus == "+++ /dev/null\n":
            assert old == [] or place == len(old)
            del self.files[path]
        else:
            self.files[path] = (kind, mode, "".join([*new, *old[place:]]).encode("latin-1"))
