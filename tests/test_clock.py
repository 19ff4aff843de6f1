"""The wall clock is read at one place, `npudoctor/clock.py`; so tests can be run on any day."""

import ast
import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import clock
from tests.test_architecture import SOURCES

ROOT = Path(__file__).resolve().parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

ALWAYS = {"time", "time_ns", "ctime", "asctime", "now", "today", "utcnow", "CLOCK_REALTIME"}
"""What reads the wall clock whatever its arguments are."""
WITHOUT_MOMENT = {"localtime": 0, "gmtime": 0, "strftime": 1}
"""Functions of `time` that read it with no more than this many arguments."""
ELSEWHERE = (
    "npudoctor/clock.py",
    "npudoctor/in_target/packages.py",  # another interpreter runs it; it compares with times of files
    "npudoctor/smoke/worker.py",  # another interpreter runs it; ranks of several nodes share no other clock
)


def readings(source: str) -> Iterator[tuple[int, str]]:
    """Where a text reads the wall clock of `time` or `datetime`, with the words that do."""
    tree = ast.parse(source)
    names = {"time": "time", "datetime": "datetime", "date": "date"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname and alias.name in names}
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call | ast.Attribute):
            continue
        call = isinstance(node, ast.Call)
        words = ast.unparse(node.func if isinstance(node, ast.Call) else node)
        first, dot, rest = words.partition(".")
        owner, _, name = f"{names.get(first, first)}{dot}{rest}".rpartition(".")
        if owner.split(".")[-1] not in ("time", "datetime", "date"):
            continue
        few = isinstance(node, ast.Call) and owner == "time" and len(node.args) <= WITHOUT_MOMENT.get(name, -1)
        if few or (name in ALWAYS and (call or owner == "time" or name != "time")):
            yield node.lineno, ast.unparse(node)


def test_the_wall_clock_is_read_at_one_place() -> None:
    found = {
        f"{where}:{line}: {words}"
        for path in (*SOURCES, *TESTS)
        if (where := path.relative_to(ROOT).as_posix()) not in ELSEWHERE
        for line, words in readings(path.read_text(encoding="utf-8"))
    }
    assert not found, "read npudoctor.clock instead; durations: time.monotonic"


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t, time\nx = time.time",
        "import time\ntime.strftime('%H')",
        "import time\ntime.localtime()",
        "from time import time\ntime()",
        "from time import gmtime\ngmtime()",
        "import datetime\ndatetime.date.today()",
        "import datetime\ndatetime.datetime.now(datetime.timezone.utc)",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import datetime as moment\nmoment.now()",
        "import time\ntime.clock_gettime(time.CLOCK_REALTIME)",
    ],
)
def test_a_reading_is_found(text: str) -> None:
    assert list(readings(text))


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.monotonic(); time.sleep(1); time.strftime('%H', time.gmtime(5)); time.localtime(3)",
        "from datetime import datetime\ndatetime.fromtimestamp(3).strftime('%H')",
        "import time\ntime.clock_gettime(time.CLOCK_BOOTTIME)",
        "from npudoctor import clock\nclock.now(); clock.today()",
    ],
)
def test_what_reads_no_wall_clock_is_not_found(text: str) -> None:
    assert not list(readings(text))


def test_all_of_it_follows_one_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock.timestamp()
    monkeypatch.setattr(clock, "shift_s", clock.shift_s + 1e9)
    assert clock.timestamp() == pytest.approx(before + 1e9, abs=600)
    assert clock.now().tzinfo is datetime.timezone.utc
    assert clock.now().timestamp() == pytest.approx(clock.timestamp(), abs=60)
    assert clock.local().timestamp() == pytest.approx(clock.timestamp(), abs=60)
    assert clock.today() in {clock.local().date(), clock.local().date() - datetime.timedelta(days=1)}
    assert clock.in_utc(0) == "1970-01-01T00:00:00Z"
