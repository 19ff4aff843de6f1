"""Writes the files of this folder. Run by npudoctor 0.1 (the first commit of CHANGELOG's 0.1.0), never by a test.

Each `journal-*.json` holds a scenario, what a fix of 0.1 made of that simulated node (files and kernel settings), and
the journal that it kept. Texts are latin-1, so that bytes survive JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import Request
from npudoctor.fixer.runner import Ended
from npudoctor.sdk import Options
from npudoctor.sim import machine, scenario

OUT = Path(__file__).parent
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any] | None]] = {
    "reserve": ({"sysctl": {"net.ipv4.ip_local_reserved_ports": "8080,9000-9010"}}, "hccl.reserve-ports", None),
    "profile": ({"cann": {"sourced": False}}, "env.profile", None),
    "profile-latin-1": (
        {"cann": {"sourced": False}, "files": {"/root/.bashrc": "alias l='ls'", "/root/.profile": "# mine\r\n"}},
        "env.profile",
        None,
    ),
    "limits": ({"limits": {"nofile": [1024, 4096]}}, "system.limits", None),
}


def files(host: Any) -> dict[str, Any]:
    found = {}
    for path, kind in host.tree.walk():
        if kind == "file" and not path.startswith("/proc/"):
            about = host.tree.stat(path)
            found[path] = [about.mode & 0o7777, host.tree.read_bytes(path).decode("latin-1")]
    return found


def inner(host: Any) -> Any:
    return host._machine._node


def main() -> None:
    catalog = plugins.load(folder="")
    for name, (said, fix, params) in CASES.items():
        said = {"product": "atlas-800t-a2-910b3", **said}
        host = machine.build(scenario.parse(said, "test"), "test")
        before, sysctl = files(host), dict(inner(host).sysctl)
        made = plan.make(catalog, host, Request(fix, params), Options())
        *_, last = runner.apply(catalog, host, made, Options(), irreversible=False)
        assert isinstance(last, Ended)
        assert last.outcome.value in ("proved", "applied"), last
        after = files(host)
        data = {
            "scenario": said,
            "fix": fix,
            "files": {path: one for path, one in after.items() if before.get(path) != one},
            "removed": [path for path in before if path not in after],
            "sysctl": {key: value for key, value in inner(host).sysctl.items() if sysctl.get(key) != value},
        }
        (OUT / f"journal-{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        print(name, last.outcome, sorted(data["files"]), file=sys.stderr)


if __name__ == "__main__":
    main()
