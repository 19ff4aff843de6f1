"""Runs the suite where it was not written: on other days, in other time zones, languages, folders, as other users.

    .venv/bin/python -m tests.variants                              # every variant, the whole suite, then a table
    .venv/bin/python -m tests.variants together -- tests/core       # one of them, and what pytest is told
    .venv/bin/python -m tests.variants later+chinese                # one run with the conditions of both

Each variant is a copy of the checkout with a virtual environment of its own; nothing outside it is changed. The date is
that of `npudoctor.clock`: a `.pth` file in that environment shifts it in every process that is started from there.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from npudoctor import clock

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
USER = 24242
"""An ordinary user's number; no account has it."""
MOST_S = 3600.0
NEPAL = "<+0545>-5:45"
"""A time zone that needs no database of zones (tzset(3))."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What is different. `at` is a local time; `locale` a language and a character set that localedef knows."""

    about: str
    at: str | None = None
    zone: str | None = None
    locale: tuple[str, str] | None = None
    environment: dict[str, str | None] = field(default_factory=dict)
    user: bool = False
    folder: str = "checkout"
    load: int = 0
    shared: bool = True


VARIANTS = {
    "together": Variant(
        about="29 February 2028, Nepal, Turkish, an ordinary user, spaces in the path",
        at="2028-02-29T12:00",
        zone=NEPAL,
        locale=("tr_TR", "UTF-8"),
        user=True,
        folder="a folder with spaces",
    ),
    "leap-day": Variant(about="29 February 2028", at="2028-02-29T12:00"),
    "new-year": Variant(about="31 December 2027, 23:58, Nepal", at="2027-12-31T23:58", zone=NEPAL),
    "later": Variant(about="14 July 2031", at="2031-07-14T09:30"),
    "zone": Variant(about="14 hours ahead of UTC", zone="<+14>-14"),
    "plain-c": Variant(about="LC_ALL=C", environment={"LC_ALL": "C"}),
    "turkish": Variant(about="Turkish, ISO-8859-9", locale=("tr_TR", "ISO-8859-9")),
    "chinese": Variant(about="Chinese, GBK", locale=("zh_CN", "GBK")),
    "user": Variant(about="an ordinary user without an account", user=True),
    "folder": Variant(about="spaces and other letters in the path", folder="Prüfung und Übung (ß, 测试)"),
    "homeless": Variant(about="HOME is not set", environment={"HOME": None}),
    "loaded": Variant(about="two busy loops for each core", load=2),
    "shuffled": Variant(about="files and tests in random order", environment={"NPUDOCTOR_TEST_ORDER": "12"}),
    "alone": Variant(about="no ../shared", shared=False),
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit status, the counts that pytest printed, and how long it took."""

    status: int
    counts: dict[str, int]
    seconds: float

    @property
    def is_green(self) -> bool:
        """Whether tests were run and none failed."""
        return self.status == 0 and bool(self.counts.get("passed"))


def main(words: Sequence[str]) -> int:
    """Run the named variants, all of them by default; 0 where every one is green."""
    place = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        prog="python -m tests.variants", description="Run the suite under other conditions."
    )
    parser.add_argument("names", nargs="*", metavar="VARIANT", help=f"{', '.join(VARIANTS)} (default: all)")
    names = parser.parse_args(words[:place]).names or list(VARIANTS)
    if unknown := [part for name in names for part in name.split("+") if part not in VARIANTS]:
        parser.error(f"no variant is called {', '.join(unknown)}; there are: {', '.join(VARIANTS)}")
    chosen = {name: _together([VARIANTS[part] for part in name.split("+")]) for name in names}
    outcomes = {name: _run(variant, words[place + 1 :]) for name, variant in chosen.items()}
    print(
        "\n| variant | what is different | passed | failed | skipped | minutes |\n| --- | --- | --- | --- | --- | --- |"
    )
    for name, done in outcomes.items():
        counts = [str(done.counts.get(word, 0)) for word in ("passed", "failed", "skipped")]
        took = f"{done.seconds / 60:.1f}" + ("" if done.is_green else f", exit {done.status}")
        print(f"| {name} | {' | '.join([chosen[name].about, *counts, took])} |")
    return 0 if all(done.is_green for done in outcomes.values()) else 1


def _together(variants: Sequence[Variant]) -> Variant:
    """All their conditions at once; of two that differ the later one holds."""
    plain, different = Variant(about="; ".join(one.about for one in variants)), {}
    for name in (one.name for one in fields(Variant) if one.name != "about"):
        for value in (getattr(variant, name) for variant in variants):
            if value != getattr(plain, name):
                different[name] = value
    return replace(plain, **different)


def _run(variant: Variant, told: Sequence[str]) -> Outcome:
    print(f"\n== {variant.about}", flush=True)
    base = Path(tempfile.mkdtemp(prefix="npudoctor-variant-"))
    base.chmod(0o755)
    try:
        checkout = base / variant.folder
        _copy(checkout)
        if variant.shared and SHARED.is_dir():
            (base / "shared").symlink_to(SHARED.resolve())
        environment = _environment(variant, base)
        as_user = variant.user and os.geteuid() == 0
        identity: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": ()} if as_user else {}
        python = _install(checkout, identity)
        if variant.at:
            _shift(checkout, variant.at, environment)
        if identity:
            for path in (base, *base.rglob("*")):
                os.chown(path, USER, USER, follow_symlinks=False)
        argv = [str(python), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", *told]
        with _busy(variant.load):
            return _pytest(argv, cwd=checkout, env=environment, **identity)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _copy(checkout: Path) -> None:
    """What git knows of this checkout, as it is now, and new files."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)


def _environment(variant: Variant, base: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "TZ", "VIRTUAL_"))}
    if variant.user:
        kept["HOME"] = str(base / "home")
        (base / "home").mkdir()
    if variant.zone:
        kept["TZ"] = variant.zone
    if variant.locale:
        kept |= _locale(*variant.locale, folder=base / "locale")
    for name, value in variant.environment.items():
        kept.pop(name, None)
        kept |= {} if value is None else {name: value}
    return kept


def _locale(language: str, charset: str, *, folder: Path) -> dict[str, str]:
    """A locale made for this run; Debian's package `locales` brings its sources."""
    name = f"{language}.{charset}"
    folder.mkdir()
    done = subprocess.run(
        ["localedef", "-i", language, "-f", charset, f"{folder}/{name}"], capture_output=True, check=False
    )
    if not (folder / name / "LC_CTYPE").exists():
        raise SystemExit(f"the locale {name} cannot be made; install the package `locales`: {done.stderr.decode()}")
    return {"LOCPATH": str(folder), "LANG": name}


def _install(checkout: Path, identity: Mapping[str, Any]) -> Path:
    """A virtual environment of a Python that this user can run, with what the README installs; its Python."""
    for base in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        is_new = "import sys; sys.exit(sys.version_info < (3, 10))"
        with contextlib.suppress(OSError):
            if subprocess.run([base, "-c", is_new], check=False, **identity).returncode == 0:
                break
    else:
        raise SystemExit(f"no Python of 3.10 or newer that user {identity.get('user')} can run is found here")
    subprocess.run([base, "-m", "venv", "--without-pip", ".venv"], cwd=checkout, check=True)
    python = checkout / ".venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", str(python), "install"]
    subprocess.run([*pip, "-c", "constraints.txt", "pip", "-e", ".[test]"], cwd=checkout, check=True)
    return python


def _shift(checkout: Path, at: str, environment: dict[str, str]) -> None:
    """Let every Python of that environment begin with another date."""
    code = "import datetime, sys; print(datetime.datetime.fromisoformat(sys.argv[1]).timestamp())"
    told = subprocess.run(
        [sys.executable, "-c", code, at], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    shift_s = float(told.stdout) - clock.timestamp()
    [packages] = checkout.glob(".venv/lib/python3.*/site-packages")
    (packages / "zz_clock.pth").write_text(
        f"import npudoctor.clock; npudoctor.clock.shift_s = {shift_s}\n", encoding="utf-8"
    )


@contextlib.contextmanager
def _busy(per_core: int) -> Iterator[None]:
    """Processes that use every core, as many of them."""
    argv = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(argv) for _ in range(per_core * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _pytest(argv: Sequence[str], **options: Any) -> Outcome:
    """Run it, print what it prints, and read its closing line."""
    began, closing = time.monotonic(), ""
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(argv, encoding="utf-8", errors="replace", start_new_session=True, **options) as running:
        assert running.stdout
        guard = threading.Timer(MOST_S, os.killpg, (running.pid, signal.SIGKILL))
        guard.start()
        for line in running.stdout:
            print(line, end="", flush=True)
            closing = line if re.search(r"\b(passed|failed|error)", line) else closing
        guard.cancel()
    counts = {
        word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", closing)
    }
    return Outcome(status=running.returncode, counts=counts, seconds=time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
