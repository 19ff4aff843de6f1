"""A recorded node whose every text holds what a terminal obeys and what a reader cannot see."""

import json
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from npudoctor import sim

CLIPBOARD = "\x1b]52;c;UFdO\x1b\\"
ONE_LINE = (
    f"{CLIPBOARD}\x1b]0;PWN\x07\x1b[31m\x9b32m\r\x08\x7f\x00\x0c\u202e\u2066\u061c\u200b\u200d\u2060\ufeff\u2028\u2029"
    "\U000e0041\ue000\u0085"
)
FORGED = "\n✔ forged (npu.health)\t\n"

Change = Callable[[str], str]


def hidden(text: str) -> list[str]:
    """The characters of a text, line breaks and tabs aside, that a terminal obeys or a reader cannot see."""
    kinds = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return [letter for letter in text if letter not in "\n\t" and unicodedata.category(letter) in kinds]


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON document, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def at_the_end(text: str) -> str:
    return f"{text}\n{ONE_LINE}\n{FORGED}"


def in_each_line(text: str) -> str:
    return "\n".join(f"{line}{ONE_LINE}" for line in text.split("\n"))


def in_words(text: str) -> str:
    """Inside the texts of a JSON document; of anything else in the values that follow a colon or an equals sign."""
    try:
        return json.dumps(_changed(json.loads(text), f"{ONE_LINE}{FORGED}"))
    except ValueError:
        lines = (line.rstrip() + ONE_LINE if ":" in line or "=" in line else line for line in text.split("\n"))
        return "\n".join(lines)


def _changed(value: Any, added: str) -> Any:
    if isinstance(value, dict):
        return {key: _changed(one, added) for key, one in value.items()}
    if isinstance(value, list):
        return [_changed(one, added) for one in value]
    return f"{value}{added}" if isinstance(value, str) and not value.startswith("/") else value


def hostile_node(folder: Path, scenario: str, change: Change | None) -> Path:
    """A recording of a simulated node, its outputs, files, names and variables changed; None: every tool fails."""
    sim.write_bundle(sim.simulate(scenario), str(folder))
    for path in (folder / "commands").iterdir():
        if change is None:
            (path / "result.json").write_text('{"returncode": 1}', encoding="utf-8")
            (path / "stdout").write_text("", encoding="utf-8")
            (path / "stderr").write_text(f"{ONE_LINE}{FORGED}", encoding="utf-8")
        elif (path / "stdout").exists():
            text = (path / "stdout").read_text(encoding="utf-8")
            (path / "stdout").write_text(change(text), encoding="utf-8")
    for file in (folder / "root").rglob("*"):
        if file.is_file() and not file.is_symlink() and b"\0" not in file.read_bytes():
            file.write_bytes(file.read_bytes().rstrip(b"\n") + ONE_LINE.encode() + FORGED.encode())
    about = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    about |= {"hostname": f"node{ONE_LINE}{FORGED}", "machine": f"aarch64{ONE_LINE}"}
    (folder / "bundle.json").write_text(json.dumps(about), encoding="utf-8")
    host = json.loads((folder / "host.json").read_text(encoding="utf-8"))
    for key, fields in NAMED.items():
        for row in host.get(key, ()):
            row |= {field: f"{row.get(field)}{ONE_LINE}{FORGED}" for field in fields}
    for row in host.get("processes", ()):
        row["cmdline"] = [f"{word}{ONE_LINE}{FORGED}\ud800" for word in row.get("cmdline") or ["x"]]
    (folder / "host.json").write_text(json.dumps(host), encoding="utf-8")
    variables = json.loads((folder / "environ.json").read_text(encoding="utf-8"))
    (folder / "environ.json").write_text(
        json.dumps({name: f"{value}{ONE_LINE}" for name, value in variables.items()}), encoding="utf-8"
    )
    return folder


NAMED = {
    "processes": ("name", "username"),
    "interfaces": ("name",),
    "mounts": ("fstype", "options"),
    "pci": ("driver",),
}
