"""What happens when the target Python imports torch and torch_npu, each time in a fresh process of its own."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping
from typing import Any

from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.device_nodes import DeviceNodes, cannot_reach_cards
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import PythonEnvironment, TargetPython
from npudoctor.records import record
from npudoctor.sdk import Because, Completed, Host, NotApplicable, Options, ParseError, Threshold, Unavailable, probe

IMPORT_TIMEOUT = Threshold(
    "python_import_timeout_s", 120, "s", "a first import from a slow network file system takes up to a minute"
)
AUTOLOAD = "Failed to load the backend extension"
_STDERR_CHARACTERS = 2000
# Texts and not patterns: what a healthy node never needs is not compiled each time a check starts.
_DUMP = r"Fatal Python error|Current thread|Thread 0x|Extension modules:|\s+File |\s*$|\s*\.\.\."


@record(frozen=True, kw_only=True)
class ImportAttempt:
    """How one import ended: with `ok`, an `error`, a `signal` (its name), or not within its time (`timed_out`).

    `stderr` is the end of what was said there, `last_line` its last line that is no traceback of a crash, `crashed_in`
    where Python was then. `seconds` is wall time. The versions are those that the packages give themselves; `devices`
    are the names of the chips.
    """

    what: str
    ok: bool
    error: str | None = None
    signal: str | None = None
    timed_out: bool = False
    seconds: float = 0.0
    stderr: str = ""
    last_line: str | None = None
    crashed_in: str | None = None
    version: str | None = None
    cuda: str | None = None
    cxx11_abi: bool | None = None
    available: bool | None = None
    device_count: int | None = None
    devices: tuple[str, ...] = ()
    devices_error: str | None = None
    cann: str | None = None

    @property
    def failure(self) -> str:
        """How it failed: "failed: ImportError: …", "crashed with SIGSEGV in …", "timed out after 120 s"."""
        if self.timed_out:
            return f"timed out after {self.seconds:.0f} s"
        if self.signal:
            where = f" in {self.crashed_in}" if self.crashed_in else ""
            return f"crashed with {self.signal}{where}"
        return f"failed: {first_line(self.error or self.last_line or 'no output')}"

    @property
    def message(self) -> str:
        """All that it said of its failure, for the tables of symptoms."""
        parts = [self.error or "", self.stderr, "Segmentation fault" if self.signal == "SIGSEGV" else ""]
        return "\n".join(part for part in parts if part)

    @property
    def is_autoload(self) -> bool:
        """Whether torch failed because it loads torch_npu by itself."""
        return AUTOLOAD in (self.error or "")


def first_line(text: str, length: int = 200) -> str:
    """The first line of a message, cut where it is too long to read; of an autoload's, what is below it."""
    tail = text[text.find(AUTOLOAD) :].rstrip() if AUTOLOAD in text else ""
    cause = re.search(r"\(\w{1,64}: ", tail) if tail.endswith(")") else None
    line = (tail[cause.start() + 1 : -1] if cause else text).strip().splitlines()[0]
    return line if len(line) <= length else line[: length - 1] + "…"


@record(frozen=True)
class TorchImport:
    """`import torch` as a job does it, and without autoloading where that failed (None where it was not tried)."""

    plain: ImportAttempt
    alone: ImportAttempt | None = None

    @property
    def is_broken_itself(self) -> bool:
        """Whether torch fails on its own; a failure of which nothing is known is taken by its text."""
        if self.plain.ok:
            return False
        return not self.alone.ok if self.alone is not None else not self.plain.is_autoload


@record(frozen=True)
class TorchNpuImport:
    """`import torch_npu`, and what it then says of the devices."""

    attempt: ImportAttempt


def parse_attempt(done: Completed, what: str) -> ImportAttempt:
    """Read how a script of in_target ended; raises ParseError where it neither failed nor said anything."""
    stderr = done.stderr[-_STDERR_CHARACTERS:].strip()
    rest: dict[str, Any] = {"what": what, "seconds": done.seconds, "stderr": stderr, **_last_words(done.stderr)}
    if done.timed_out:
        return ImportAttempt(ok=False, timed_out=True, **rest)
    said = _object(done.stdout)
    if done.returncode is not None and done.returncode < 0:
        return ImportAttempt(ok=False, signal=_signal(-done.returncode), **rest)
    if said is None:
        if not done.returncode:
            raise ParseError(f"{what}: output not understood", line_number=1, line=done.stdout[:80])
        return ImportAttempt(ok=False, error=rest["last_line"] or f"exit status {done.returncode}", **rest)
    count = said.get("device_count")
    names = said.get("devices")
    return ImportAttempt(
        **rest,
        ok=said.get("ok") is True,
        error=None if said.get("ok") is True else _text(said.get("error")) or "it does not say why",
        version=_text(said.get("version")),
        cuda=_text(said.get("cuda")),
        cxx11_abi=_truth(said.get("cxx11_abi")),
        available=_truth(said.get("available")),
        device_count=count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None,
        devices=tuple(map(str, names)) if isinstance(names, list) else (),
        devices_error=_text(said.get("devices_error")),
        cann=_text(said.get("cann")),
    )


def _last_words(stderr: str) -> dict[str, str | None]:
    """The last line that a program wrote itself, and the innermost place that Python's dump of a crash names."""
    end = stderr[-64 * 1024 :]
    own, dump, crash = end.rpartition("Fatal Python error")
    spoken = [line.strip() for line in (own if dump else crash).splitlines() if not re.match(_DUMP, line)]
    place = re.search(r'File "([^"]+)", line (\d+) in (\S+)', crash) if dump else None
    return {
        "last_line": spoken[-1][:300] if spoken else None,
        "crashed_in": f"{place[1]}, line {place[2]}" if place else None,
    }


def _object(text: str) -> Mapping[str, Any] | None:
    for line in reversed(text.splitlines()):
        if line.lstrip().startswith("{"):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict) and "ok" in said:
                return said
    return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _not_in_quick(options: Options) -> None:
    if options.profile == "quick":
        raise NotApplicable("not part of profile quick: it imports nothing")


def _attempt(host: Host, name: str, python: str, options: Options) -> ImportAttempt:
    return parse_attempt(
        host.run_in_target(name, python, timeout=IMPORT_TIMEOUT.of(options)), name.split(" without")[0]
    )


@probe
def torch_import(
    host: Host,
    python: TargetPython,
    environment: PythonEnvironment,
    options: Options,
    variables: JobEnvironment,  # noqa: ARG001 - an import shows nothing outside of a user's environment
    stack: SoftwareStack,  # noqa: ARG001 - a node that only lends its NPUs imports nothing
) -> TorchImport:
    """By importing it there; a second time without autoloading only where the first fails."""
    _not_in_quick(options)
    if environment.torch is None:
        raise Unavailable("torch not installed in this Python", blocked_by="python.torch")
    plain = _attempt(host, "import torch", python.path, options)
    if plain.ok:
        return TorchImport(plain)
    try:
        return TorchImport(plain, _attempt(host, "import torch without autoload", python.path, options))
    except Unavailable:
        return TorchImport(plain)


@probe
def torch_npu_import(
    host: Host,
    python: TargetPython,
    environment: PythonEnvironment,
    options: Options,
    variables: JobEnvironment,  # noqa: ARG001 - as above
    stack: SoftwareStack,  # noqa: ARG001 - as above
    nodes: DeviceNodes | None,
) -> TorchNpuImport:
    """By importing it there, beside a torch that is installed; not as a user who may not open the devices."""
    _not_in_quick(options)
    user = host.target_user(python.path)
    if user.uid != host.user.uid and (reason := cannot_reach_cards(user, nodes)):
        raise Unavailable(reason, because=Because.NO_RIGHT)
    if environment.torch is None:
        raise Unavailable("torch not installed in this Python", blocked_by="python.torch")
    if environment.torch_npu is None:
        raise Unavailable("torch_npu not installed in this Python", blocked_by="python.torch-npu")
    return TorchNpuImport(_attempt(host, "import torch_npu", python.path, options))
