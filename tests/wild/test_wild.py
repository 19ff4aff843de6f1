"""Failures from public threads: the signal that the program printed, and the cause that the thread concluded.

threads.json holds for each thread its link, the cause and the remedy in our words, the known issue that fits
(`pitfall`, and `also` where another one is right too), and `signal`, the lines of the program with names, times and
paths made neutral. `set` is `train` for what rules may be written from, `held` for what they are measured on. `twin_of`
names a thread of the other set with nearly the same message; `signal_completed` marks a message that the thread showed
in part.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge
from npudoctor.explain import diagnosis, scan

THREADS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "threads.json").read_text(encoding="utf-8"))
KINDS = {
    *("version-mismatch", "missing-library", "env-not-sourced", "wrong-package", "chip-not-supported", "other"),
    *("device-access", "port-or-network", "hccl-timeout-consequence", "out-of-memory-full-card", "device-index"),
    *("out-of-memory-job-too-large", "disk-or-permission", "kernels-not-compiled", "driver-or-firmware", "hardware"),
    *("container-config", "kv-transport", "not-environment"),
}
PRIVATE = re.compile(r"/home/(?!user\b|path\b)\w+|\b(?:\d{1,3}\.){3}\d{1,3}\b")
NEUTRAL = re.compile(r"^(?:10\.0\.0\.\d+|127\.0\.0\.1|0\.0\.0\.0)$")


@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: str(thread["id"]))
def test_a_thread_is_labelled_and_neutral(thread: dict[str, Any]) -> None:
    assert thread["set"] in ("train", "held")
    assert thread["kind"] in KINDS
    assert thread["link"].startswith("https://github.com/")
    assert thread["cause"] and thread["remedy"] and thread["signal"]
    known = {row.id for row in knowledge.pitfalls().rows}
    assert {*filter(None, [thread["pitfall"]]), *thread.get("also", ())} <= known
    found = PRIVATE.findall("\n".join(thread["signal"]))
    assert [one for one in found if not NEUTRAL.match(one)] == []


def test_ids_are_unique_and_half_is_held_back() -> None:
    assert len({thread["id"] for thread in THREADS}) == len(THREADS)
    sets = Counter(thread["set"] for thread in THREADS)
    assert abs(sets["train"] - sets["held"]) <= 2


def first_suspect(thread: dict[str, Any]) -> str | None:
    """The known issue that `npudoctor explain --log` names first for the signal."""
    scanner = scan.Scanner()
    scanner.read("signal", iter([("\n".join(thread["signal"]) + "\n").encode()]))
    suspects = diagnosis.diagnose(scanner).suspects
    return suspects[0].pitfall.id if suspects else None


def right_first(name: str) -> float:
    """The share of threads of a set with a known issue whose issue comes first."""
    threads = [thread for thread in THREADS if thread["set"] == name and thread["pitfall"]]
    right = [one for one in threads if first_suspect(one) in (one["pitfall"], *one.get("also", ()))]
    return len(right) / len(threads)


@pytest.mark.parametrize(("name", "least"), [("train", 0.42), ("held", 0.57)])
def test_no_fewer_causes_are_named_first_than_when_this_was_measured(name: str, least: float) -> None:
    assert right_first(name) >= least
