"""Stand-ins for apt-get with dpkg, and dnf with rpm: packages are files in a folder `db`, offered by `repo.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TOOL = """#!@PYTHON@ -SE
import json, os, sys
tool, words, base = os.path.basename(sys.argv[0]), sys.argv[1:], "@BASE@"
repo = json.load(open(base + "/repo.json"))
names = [word for word in words if not word.startswith("-") and word not in ("install", "DPkg::Lock::Timeout=60")]
if tool in ("dpkg-query", "rpm") and "-W" in words or "--qf" in words:
    names = names[1:]
def there(name):
    try:
        return open(base + "/db/" + name).read().split()
    except FileNotFoundError:
        return None
def rpm_name(word):
    def spellings(name):
        return name, *(name + "-" + one for one in (repo[name]["version"], repo[name]["version"].split(":")[-1]))
    return next((name for name in repo if word in spellings(name)), word)
def wanted(words, found):
    for word in words:
        name = word.partition("=")[0] if tool == "apt-get" else rpm_name(word)
        if name not in repo:
            said = "E: Unable to locate package " if tool == "apt-get" else "Error: Unable to find a match: "
            print(said + name, file=sys.stderr)
            sys.exit(100)
        if not there(name) and name not in found:
            wanted(repo[name].get("needs", []), found)
            found.append(name)
    return found
if tool == "dpkg-query":
    for name in names:
        if there(name):
            print(name, *there(name))
elif tool == "rpm" and "-q" in words:
    known = [name for name in map(rpm_name, names) if there(name)]
    for name in known:
        print(name, there(name)[0])
    for name in names:
        if rpm_name(name) not in known:
            print("package " + name + " is not installed")
    sys.exit(len(known) < len(names))
elif tool == "dpkg" or tool == "rpm":
    if {"dpkg": "--test", "rpm": "--simulate"}[tool] in words:
        sys.exit("unknown option")
    names = [rpm_name(name) if tool == "rpm" else name for name in names]
    for other in sorted(os.listdir(base + "/db")):
        if other not in names and set(repo.get(other, {}).get("needs", [])) & set(names):
            print(tool + ": dependency problems: " + other + " depends on " + " ".join(names), file=sys.stderr)
            sys.exit(1)
    for name in () if {"--simulate", "--test"} & set(words) else names:
        os.unlink(base + "/db/" + name)
else:
    new = wanted(names, [])
    changed = sorted({one for name in new for one in repo[name].get("upgrades", [])})
    if tool == "apt-get" and "--simulate" in words:
        print("NOTE: This is only a simulation!")
        for name in changed:
            print("Inst " + name + " [1.0] (2.0 Debian:12.5/stable [amd64])")
        for name in new:
            print("Inst " + name + " (" + repo[name]["version"] + " Debian:12.5/stable [amd64])")
    elif "--assumeno" in words:
        print("Dependencies resolved.\\n" + "=" * 80 + "\\n Package  Arch  Version  Repository  Size\\n" + "=" * 80)
        asked = [name for name in new if name in map(rpm_name, names)]
        needed = [name for name in new if name not in asked]
        for title, rows in (("Installing", asked), ("Installing dependencies", needed), ("Upgrading", changed)):
            print(title + ":" if rows else "", end="\\n" if rows else "")
            for name in rows:
                version, _, arch = repo.get(name, {"version": "2.0.x86_64"})["version"].rpartition(".")
                gap = "\\n       " if len(name) > 20 else "  "
                print(" " + name + gap + arch + "  " + version + "  everything  60 k")
        print("\\nTransaction Summary\\n" + "=" * 80 + "\\nInstall  %d Packages\\nOperation aborted." % len(new))
        sys.exit(1)
    else:
        for name in new:
            with open(base + "/db/.new", "w") as file:
                file.write(repo[name]["version"] + " installed")
            os.rename(base + "/db/.new", base + "/db/" + name)
"""


def managers(tools: Path, base: Path, repo: Mapping[str, Mapping[str, Any]], *, kind: str = "apt") -> None:
    """Lay the tools of one kind, `apt` or `rpm`, into a folder; `repo` has version, needs and upgrades by name."""
    for folder in (tools, base / "db"):
        folder.mkdir(parents=True, exist_ok=True)
    (base / "repo.json").write_text(json.dumps(repo), encoding="utf-8")
    text = _TOOL.replace("@PYTHON@", sys.executable).replace("@BASE@", str(base))
    for name in ("apt-get", "dpkg", "dpkg-query") if kind == "apt" else ("dnf", "rpm"):
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
