"""The driver's library libdcmi.so, asked by a process of its own (read_dcmi.py) that can be killed.

That process has root privileges: therefore the library is loaded only from the driver's places, and only where
no user but root can write any part of its path. A question that hangs or crashes loses that chip, or that question of
that chip: the process is started again without it, until the time is up.
"""

from __future__ import annotations

import contextlib
import functools
import json
import marshal
import os
import posixpath
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import npudoctor
from npudoctor.findings import Because
from npudoctor.host import Completed, FileStat, Unavailable
from npudoctor.host.hands_off import PATH as OFF
from npudoctor.host.hands_off import WATCH_S, must_be_absent
from npudoctor.host.live import processes, reader
from npudoctor.host.live.reader import Reader
from npudoctor.host.live.trust import entry_of, foreign_writer
from npudoctor.host.shortage import what_ran_out
from npudoctor.host.simulated.tree import DiskStore, FileTree

TABLE = posixpath.join(posixpath.dirname(npudoctor.__file__), "knowledge", "tables", "dcmi.json")
"""Read here as it is written: rows of a site's own must not decide what root calls."""

NAME = "libdcmi.so"
OWN_FOLDER = "/usr/local/dcmi"
CALL_S = 2.0
"""How long one question may take; most take milliseconds, and a chip that hangs holds its caller a minute."""
INIT_S = 20.0
"""The same for dcmi_init, which starts programs and asks every chip, then the controller of every board: one that does
not answer takes two seconds, and eight of them sixteen. At most twice the time that a tool has."""
MOST_BYTES = 8 << 20
MOST_STARTS = 40
_END = b'{"tells": "end"}\n'
_DEAD: dict[str, Any] = {"lost": "nothing"}
"""A kept reader had died before it was asked."""
_OF_SICK = ["error_codes", "error_texts"]
"""What the table needs of chips that are not OK."""
_STARTING = tuple(b'{"%s": "%s"' % (word, name) for word in (b"asks", b"tells") for name in (b"load", b"init"))
_DOUBTFUL = (-8001, -8005, -8012)
_DOUBTFUL_LINES = (*(b'"rc": %d,' % code for code in _DOUBTFUL), *(b'"rc": %d}' % code for code in _DOUBTFUL), b"-1")
"""Codes after which a chip may come back, or another be gone: the next reading initialises the library anew."""


class Library:
    """The library of a driver below `root`; one reader at a time, and none is left unless this process keeps it.

    `hands_off`: the file that forbids to ask it.
    """

    def __init__(self, root: str, hands_off: str | None = None) -> None:
        self._root = root
        self.hands_off = root + OFF if hands_off is None else hands_off
        self._running: Reader | None = None
        self._closed = False

    def ask(self, driver: str, *, pages: bool, timeout: float) -> Completed:
        """What it says of every chip, as JSON lines; with `pages`, more than `npu-smi info` shows.

        Raises Unavailable without a library that may be loaded, Maintenance while it may not be asked.
        """
        path: str | None = None
        try:
            with reader.KEPT.turn:
                must_be_absent(self.hands_off)
                known = reader.KEPT.take(self._key(driver))
                path, folders = (known.key[1], ()) if known else self._require_trusted(driver)
                return _Reading(self, known, path, folders, driver, pages=pages, timeout=timeout).result()
        except OSError as problem:
            if what_ran_out(problem):
                raise
            said = f"{path or NAME} cannot be asked: {problem.strerror}"
            raise Unavailable(said, because=Because.FAILED) from problem

    def close(self) -> None:
        """End a reading of this host at once."""
        self._closed = True
        if (running := self._running) is not None:
            processes.signal_group(running.process, signal.SIGKILL)

    def _key(self, driver: str) -> tuple[Any, ...]:
        """Which library a reader has loaded: another file at its place is another library."""
        for path in self._places(driver):
            with contextlib.suppress(OSError):
                place = os.path.realpath(self.at(path))
                found = os.stat(place)
                return (self._root, place, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        return ()

    @staticmethod
    def _places(driver: str) -> tuple[str, ...]:
        return tuple(posixpath.join(folder, NAME) for folder in (posixpath.join(driver, "lib64/driver"), OWN_FOLDER))

    def _require_trusted(self, driver: str) -> tuple[str, tuple[str, ...]]:
        """The real paths of the library that is loaded and of the folders that the linker searches.

        Unavailable with the reason where there is none. The folders are listed once, and named as they were judged:
        only root can change any part of these paths afterwards.
        """
        refused, folders = None, self._folders(driver)
        for path in self._places(driver):
            if not os.path.isfile(self.at(path)):
                continue
            if (reason := next(filter(None, map(self._why_not, (path, *self._needed_files(folders)))), None)) is None:
                return os.path.realpath(self.at(path)), tuple(os.path.realpath(self.at(one)) for one in folders)
            refused = refused or f"{path} is not loaded: {reason}"
        if refused:
            raise Unavailable(refused, because=Because.NO_RIGHT)
        raise Unavailable(f"{NAME} is not installed")

    def _folders(self, driver: str) -> list[str]:
        """Where the libraries lie that this one needs; nothing else says so to the linker.

        A folder that is not there is left out, because who makes it is not known beforehand.
        """
        libraries = posixpath.join(driver, "lib64")
        places = (posixpath.join(libraries, "common"), posixpath.join(libraries, "driver"), libraries)
        return [place for place in places if os.path.isdir(self.at(place))]

    def _needed_files(self, folders: list[str]) -> Iterator[str]:
        """What the linker could load with it."""
        for folder in folders:
            yield folder
            yield from (posixpath.join(folder, name) for name in os.listdir(self.at(folder)) if ".so" in name)

    def at(self, path: str) -> str:
        """Where a path of the node lies on this machine; a link below `root` does not lead out of it."""
        return self._root + FileTree(DiskStore(self._root)).resolve(path) if self._root else path

    def _entry(self, path: str) -> FileStat | None:
        try:
            return entry_of(os.lstat(self._root + path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _target(self, path: str) -> str | None:
        with contextlib.suppress(OSError):
            return os.readlink(self._root + path)
        return None

    def _why_not(self, path: str) -> str | None:
        """Why root does not load it; a plain user may load what he himself has put below `--root`."""
        users = () if not self._root else None
        try:
            found = foreign_writer(self.at(path), users=users, groups=())
            if self._root and found is None:  # the links on the way, too
                look, read_link = self._entry, self._target
                found = foreign_writer(path, users=users, groups=(), look=look, read_link=read_link)
        except OSError as problem:
            return f"it cannot be judged: {problem.strerror}"
        return found.reason if found else None

    def start(self, key: tuple[Any, ...], folders: Sequence[str]) -> Reader:
        """Start a reader."""
        self._running = Reader(key, self.hands_off, environment(folders))
        if self._closed:
            processes.signal_group(self._running.process, signal.SIGKILL)
        return self._running

    def runs(self, running: Reader | None) -> None:
        """Which reader works for this host."""
        self._running = running


def environment(folders: Sequence[str]) -> dict[str, str]:
    """The variables of the reader: its own, never a job's and never a user's."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LD_LIBRARY_PATH": ":".join(folders),
        "HOME": "/nonexistent",  # for other users than root the library writes its log below it
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }


@functools.cache
def _table() -> Any:
    with open(TABLE, encoding="utf-8") as file:
        return json.load(file)


class _Reading:
    """One reading of all chips, by as many processes as it takes."""

    def __init__(
        self,
        library: Library,
        known: Reader | None,
        path: str,
        folders: Sequence[str],
        driver: str,
        *,
        pages: bool,
        timeout: float,
    ) -> None:
        self._library, self._path, self._driver = library, path, driver
        self._known, self._folders = known, folders
        self._is_doubtful = False
        self._began = time.monotonic()
        self._until = self._began + timeout
        self._timeout, self._call_s = timeout, min(CALL_S, timeout)
        self._init_s = min(INIT_S, 2 * timeout)
        self._limit_s = self._init_s
        self._is_initialised = False
        table = _table()
        of_chip = table["of_chip"] + (table["pages_of_chip"] if pages else [])
        self._request = {
            "library": path,
            "calls": table["calls"],
            "structs": table["structs"],
            "questions": [table["of_node"], of_chip],
            "of_sick": [] if pages else _OF_SICK,
        }
        self._skip: dict[str, list[str]] = {}
        self._told: dict[tuple[str, Any, Any], bytes] = {}
        self._lost: list[dict[str, Any]] = []

    def result(self) -> Completed:
        """The lines that it told, and a line for each question that was lost."""
        ended, timed_out = False, False
        for _ in range(MOST_STARTS):
            lost = self._once()
            if lost == _DEAD:
                continue
            if lost is None:
                ended = True
                break
            if time.monotonic() >= self._until or self._library._closed:
                timed_out = True
                break
            if not self._without(lost):
                break
        lines = [b'{"library": ' + json.dumps(self._path).encode() + b"}", *self._told.values()]
        lines += [json.dumps(one).encode() for one in self._lost]
        return Completed(
            returncode=0 if ended else None if timed_out else 1,
            stdout=b"\n".join(lines).decode("utf-8", "replace") + "\n",
            seconds=time.monotonic() - self._began,
            timed_out=timed_out,
        )

    def _without(self, lost: Mapping[str, Any]) -> bool:
        """Skip what was answered and what was lost; False where nothing is left to be asked."""
        place = (lost.get("npu"), lost.get("chip"))
        if place == (None, None) and lost["lost"] in (None, "load", "init", "npus"):
            return False
        skip: dict[str, list[str]] = {}
        for name, npu, chip in self._told:
            if name not in ("load", "init", "npus", "chips", "ids"):
                skip.setdefault(_key(npu, chip), []).append(name)
        for key in skip:
            if key not in ("/", _key(*place)):
                skip[key] = ["*"]
        crashes = [one for one in self._lost if (one.get("npu"), one.get("chip")) == place]
        for one in self._lost:
            key = _key(one.get("npu"), one.get("chip"))
            whole = one["how"] == "hang" or (one is lost and len(crashes) > 1)
            skip[key] = ["*"] if whole and key != "/" else [*skip.get(key, ()), one["lost"]]
        self._skip = skip
        return True

    def _once(self) -> dict[str, Any] | None:
        """What one process told, added to the rest; what it was asked when it hung or crashed, None where it ended."""
        asking, self._known = self._known, None
        if asking is None:
            asking = self._start_reader()
        self._library.runs(asking)
        said, how, ended = bytearray(), "", False
        try:
            asking.ask(marshal.dumps({**self._request, "skip": self._skip}))
            how = self._collect(asking.answers, said)
            ended = said.endswith(_END)
            asked = None if ended and not self._told and self._is_plain(said) else self._read(said)
        finally:
            self._library.runs(None)
            if ended and reader.KEPT.wanted and not (self._lost or self._is_doubtful or self._library._closed):
                reader.KEPT.put(asking)
            else:
                asking.end(at_once=not ended)
        if ended:
            return None
        must_be_absent(self._library.hands_off)  # the reader watches for it, too
        if not said and not asking.is_new and not how:  # it had died while it waited
            return _DEAD
        lost: dict[str, Any] = {
            "lost": asked["asks"] if asked else None,
            "how": how or _end_of(asking.process.poll()),
        }
        lost |= {key: asked[key] for key in ("npu", "chip") if asked and key in asked}
        if how == "hang":
            lost["limit_s"] = self._limit_s
        self._lost.append(lost)
        return lost

    def _start_reader(self) -> Reader:
        """A new reader; its library and folders are judged anew where those of a kept one were not."""
        if not self._folders:
            self._path, self._folders = self._library._require_trusted(self._driver)
            self._request["library"] = self._path
        return self._library.start(self._library._key(self._driver), self._folders)

    def _is_plain(self, said: bytearray) -> bool:
        """Take what a process told that was asked everything and ended well, without reading each line."""
        lines = [line for line in bytes(said).splitlines() if line.startswith(b'{"tells"') and line + b"\n" != _END]
        if any(code in said for code in _DOUBTFUL_LINES) or b'"npus"' not in said:
            return False
        self._told = {("", None, at): line for at, line in enumerate(lines)}
        return True

    def _read(self, said: bytearray) -> dict[str, Any] | None:
        """Take what it told; the question that it was asked last."""
        asked: dict[str, Any] | None = None
        for line in bytes(said).splitlines():
            with contextlib.suppress(ValueError, AttributeError):
                row = json.loads(line)
                if "asks" in row:
                    asked = row
                elif "tells" in row and row["tells"] != "end":
                    place = (row["tells"], row.get("npu"), row.get("chip"))
                    if place not in self._told or row["tells"] == "init":  # the second family follows a refusal
                        self._told[place] = line
                    lost = row["tells"] == "npus" and b"-" in line.partition(b'"value"')[2]
                    self._is_doubtful = self._is_doubtful or lost or row.get("rc") in _DOUBTFUL
        return asked

    def _until_then(self, said: bytearray) -> float:
        """Until when the next word is awaited; initialising does not count for the time of the questions."""
        now = time.monotonic()
        last = said[said.rfind(b"\n", 0, -1) + 1 :]
        if not last or last.startswith(_STARTING):
            self._limit_s = self._init_s
            until = now + self._init_s
            return min(until, self._until) if self._is_initialised else until
        if not self._is_initialised:
            self._is_initialised, self._until = True, now + self._timeout
        self._limit_s = self._call_s
        return min(self._until, now + self._call_s)

    def _collect(self, answers: int, said: bytearray) -> str:
        """Read until the reader is done, dies, or is silent for too long; "hang" in the last case."""
        told = select.poll()  # select(2) takes no descriptor above 1023
        told.register(answers, select.POLLIN)
        while len(said) < MOST_BYTES:
            until = self._until_then(said)
            while not told.poll(max(0.0, min(until - time.monotonic(), WATCH_S)) * 1000):
                must_be_absent(self._library.hands_off)
                if time.monotonic() >= until:
                    return "hang"
            piece = os.read(answers, 1 << 16)
            if not piece:
                return ""
            said += piece
            if said.endswith(_END):
                return ""
        return "too much"


def _key(npu: Any, chip: Any) -> str:
    return f"{'' if npu is None else npu}/{'' if chip is None else chip}"


def _end_of(status: int | None) -> str:
    return f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"


__all__ = ["Library"]
