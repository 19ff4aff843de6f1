"""Reads logs of any size once, in bounded memory, and keeps the first sighting of each match.

Lines of a log repeat with other numbers and addresses. The shape of a line is the line without digits and the letters
a to f. A shape is searched when it is new; lines of shapes without a match then cost one dictionary look-up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate, islice, pairwise

from npudoctor import knowledge
from npudoctor.explain import endings, signs
from npudoctor.explain.commands import Commands
from npudoctor.explain.lines import (
    QUOTED,
    REPLACED,
    Moment,
    Source,
    advice_begins,
    gravity_of,
    message_of,
    moment_of,
    source_of,
)
from npudoctor.explain.neighbours import (
    as_text,
    fits,
    is_attempt,
    is_replaced,
    lines_above,
    moment_near,
    rank_below,
    sentence_beside,
    source_of_traceback,
    with_details,
)
from npudoctor.explain.patterns import Found, Kind, Sought
from npudoctor.explain.sightings import FileRead, Sighting
from npudoctor.explain.unpack import DOCKER, Pieces, is_docker_json, why_unreadable, without_json
from npudoctor.privacy.credentials import mask
from npudoctor.records import replace

BLOCK = 1 << 20
"""Bytes that are read and searched together."""

_VARYING = b"0123456789abcdef"
_LOOKS = 2000
"""The most lines searched of a matching shape: enough for the ranks of a large job."""

_IN_VAIN = 7
"""A search without a match counts as many searches of its shape."""

_WORN = 3000
"""After so many searches without a new match, a word alone no longer triggers a search."""

_LAST = 64 << 10
"""Bytes at the end of a file, in which no word is worn."""

_KNOWN_SHAPES = 30_000
_KEPT = 4000
_SHOWN = 400
_LONGEST_LINE = 8192
_LONGEST_LOOK = 4 << 20
_KEPT_OF_END = 32 << 10
"""Bytes searched at the beginning and at the end of an endless line; the rest is skipped."""

MIXED_RELEASES = "P102"
"""The known issue that packages of one stack are of different releases."""

HIDDEN_BY_SOURCE = "P070"
"""The known issue that a source folder hides an installed package of its name."""

_WINDOWS = 300
_FIRST_BLOCKS, _OF_BLOCKS = 4, 16
"""Blocks at the beginning of a log in which progress is searched; behind them in one of so many."""

_VARIED_BLOCKS = 32
_ENDS = 16 << 10
_STAMPED = 60
"""Bytes and lines at the beginning and at the end of a file in which its time stamps are searched."""

_SESSION = 4 << 20
"""Bytes at the beginning of a log in which the commands of a terminal session are searched."""


class Scanner:
    """Reads one file after another; `sightings` and `counts` (by kind and what) grow, within bounds."""

    def __init__(self, sought: Sought | None = None, progress: Callable[[int], None] = lambda _: None) -> None:
        self.sightings: list[Sighting] = []
        self.counts: Counter[tuple[Kind, str]] = Counter()
        self.files: list[FileRead] = []
        self._sought = sought or Sought()
        self._sieve = self._sought.sieve
        self._progress = progress
        self._left: dict[bytes, int] = {}
        self._vain: Counter[bytes] = Counter()
        self._worn: set[bytes] = set()
        self._seen: set[tuple[Kind, str, str, Source, int, bool, bool, bool, int]] = set()
        self._faults_of_packages: set[str] = set()
        self._commands = Commands()
        self._progress_at: int | None = None
        self._lines = self._offset = self._varied = 0
        self._in_json = False
        self._complains = signs.Complaint.NONE

    def read(self, name: str, blocks: Iterable[bytes]) -> FileRead:
        """Read one file, given in blocks of any size."""
        self._lines = self._offset = self._varied = 0
        self._in_json = False
        self._progress_at = None
        self._commands = Commands()
        self._faults_of_packages = set()
        tail = whole = b""
        unfinished = 0
        first = True
        foreign = in_container = False
        self._complains = signs.Complaint.NONE
        began = None
        end = b""
        pieces = Pieces(blocks, self._progress)
        for block in pieces:
            if first and (problem := why_unreadable(block)):
                return self._end_of_file(FileRead(name, len(block), 0, problem=problem))
            foreign = foreign or (first and _is_foreign(block))
            if first:
                in_container = signs.of_container(block[:_ENDS])
                began = _stamp(_strip_docker(block[:_ENDS]).split(b"\n"))
            first = False
            end = block[-_ENDS:] if len(block) >= _ENDS else (end + block)[-_ENDS:]
            data = tail + block
            cut = data.rfind(b"\n") + 1
            if cut:
                unfinished = 0
            elif len(data) > BLOCK:
                cut = len(data) if unfinished < _LONGEST_LOOK else 0
                unfinished += len(data)
            self._look(whole)
            whole = data[:cut]
            if len(data) - cut > BLOCK and unfinished:  # the middle of a line beyond the limit
                self._look(whole)
                whole = b""
                cut = len(data) - _KEPT_OF_END
                self._offset += cut
            tail = data[cut:]
        self._look_at_end(whole + tail)
        ended = _stamp(reversed(_strip_docker(end).split(b"\n")))
        problem = "empty" if first else None
        lines = self._lines + (not end.endswith(b"\n") and bool(end))
        signed = (signs.Complaint.ERROR if foreign else self._complains, in_container)
        ending, apart = self._good_ending(end)
        far = max(self._progress_at or 0, apart)
        read = FileRead(name, self._offset, lines, foreign, problem, pieces.reason, began, ended or began, *signed)
        return self._end_of_file(
            replace(read, went_on_at=far, good_ending=ending, run_again=self._commands.run_again(self._offset))
        )

    def _look_at_end(self, data: bytes) -> None:
        """Search the rest of a file, its last lines for all words: what ended the job may have none but worn ones."""
        cut = data.rfind(b"\n", 0, max(len(data) - _LAST, 0)) + 1
        self._look(data[:cut])
        worn, vain = self._worn, self._vain
        self._worn, self._vain = set(), Counter()
        self._look(data[cut:])
        self._worn, self._vain = worn, vain

    def _end_of_file(self, read: FileRead) -> FileRead:
        self.files.append(read)
        return read

    def _good_ending(self, end: bytes) -> tuple[Sighting | None, int]:
        """The report of success in the last lines of the file, and the offset up to which it overcomes failures."""
        ending = endings.good_ending(_strip_docker(end).decode("utf-8", "replace").replace("\r", " "))
        if ending is None:
            return None, 0
        text = as_text(ending.text.encode())
        lines = end.split(b"\n")
        behind = lines[-1 - ending.line_from_end :]
        apart = lines[-1 - ending.line_from_end - ending.apart :]
        sighting = Sighting(
            found=Found(Kind.ENDING, "success", "the last lines", 0),
            file=len(self.files),
            line=self._lines + 1 - ending.line_from_end,
            offset=self._offset - sum(map(len, behind)) - len(behind) + 1,
            text=_around(text, 0),
            quoted=_around(mask(text), 0),
            source=source_of(text),
            moment=None,
            moment_near=False,
            gravity=1.0,
            advice=False,
        )
        return sighting, self._offset - sum(map(len, apart)) - len(apart) + 1

    def _look(self, raw: bytes) -> None:
        """Search whole lines."""
        if not raw:
            return
        if self._offset == 0:
            self._in_json = is_docker_json(raw)
        data = without_json(raw) if self._in_json else raw
        text = data.replace(b"\r", b"\n") if b"\r" in data else data
        if not self._varied:
            lines, numbers = self._unlike_lines(text)
        if sifted := bool(self._varied):
            lines, numbers = self._sift(text)
        if self._complains < signs.Complaint.ERROR:
            said = text if sifted else b"\n".join(lines[number] for number in numbers)
            self._complains = max(self._complains, signs.complaint_of(said))
        known = self._left
        self._look_for_progress(text)
        if self._offset < _SESSION and (b"# " in raw or b"$ " in raw):
            self._commands.read(raw, self._offset)
        for number in numbers:
            shape = lines[number].translate(None, _VARYING)
            left = known.get(shape)
            if left != 0:
                word = self._sieve.passes(lines[number], self._worn)
                left = self._examine(data, lines, number, word, left or _LOOKS) if word else 0
            if len(shape) < _LONGEST_LINE:
                known[shape] = left
        if len(known) > _KNOWN_SHAPES:
            self._left = {shape: left for shape, left in known.items() if left}
            if len(self._left) > _KNOWN_SHAPES:
                self._left = {}
        self._lines += len(lines) - 1 if lines and text is raw else raw.count(b"\n")
        self._offset += len(raw)

    def _look_for_progress(self, text: bytes) -> None:
        """Search the first line that reports progress; in long logs without one, in a part of the blocks."""
        self._goes_on_from = None if self._progress_at is None else -1
        block = self._offset // BLOCK
        if self._progress_at is None and (block < _FIRST_BLOCKS or block % _OF_BLOCKS == 0):
            start = endings.first_progress(text)
            if start is not None:
                self._progress_at = self._offset + start
                self._goes_on_from = text.count(b"\n", 0, start)

    def _unlike_lines(self, text: bytes) -> tuple[list[bytes], list[int]]:
        """The lines, and the numbers of those whose shapes are new or matched."""
        lines = text.split(b"\n")
        shapes = text.translate(None, _VARYING).split(b"\n")
        numbers = [number for number, left in enumerate(map(self._left.get, shapes)) if left != 0]
        if len(numbers) > len(lines) / 2 and len(set(shapes)) > len(lines) / 2:
            self._varied = _VARIED_BLOCKS
        return lines, numbers

    def _sift(self, text: bytes) -> tuple[list[bytes], list[int]]:
        """The same by the prefilter alone: faster where few lines repeat."""
        self._varied -= 1
        starts = self._sieve.starts_in(text, self._worn)
        if not starts:
            return [], []
        numbers = accumulate(text.count(b"\n", last, start) for last, start in pairwise([0, *starts]))
        return text.split(b"\n"), list(dict.fromkeys(numbers))

    def _examine(self, data: bytes, lines: list[bytes], number: int, word: bytes, left: int) -> int:
        """Search a line; how many more of its shape to search."""
        cost = _IN_VAIN
        new = False
        for start, window in self._windows(lines[number]):
            line = as_text(window)
            if found := self._sought.find(line):
                cost = 1
                new = self._note(found, data, lines, number, start, line) or new
        if not new:
            self._vain[word] += 1
            if self._vain[word] > _WORN:
                self._worn.add(word)
        return max(left - cost, 0)

    def _windows(self, line: bytes) -> Iterable[tuple[int, bytes]]:
        """The line, or of a very long one the surroundings of possible matches."""
        if len(line) <= _LONGEST_LINE:
            return [(0, line)]
        starts = self._sieve.starts_in(line, self._worn)
        windows, end = [], -1
        for start in starts[:_WINDOWS]:
            if start >= end:
                begin = max(start - 200, 0)
                end = begin + 2000
                windows.append((begin, line[begin:end]))
        return windows

    def _note(self, found: list[Found], data: bytes, lines: list[bytes], number: int, start: int, line: str) -> bool:
        """Keep new matches of a line; whether there were any."""
        source = source_of(line)
        if not source.known:
            source = replace(source_of_traceback(lines, number), node=source.node)
        file = len(self.files)
        gravity = min(gravity_of(line), REPLACED if is_replaced(lines, number) else 1.0)
        attempt = is_attempt(line, lines, number)
        raised = next((one for one in found if one.kind is Kind.EXCEPTION), None)
        if raised and self._is_fault_of_a_package(raised.what, line, lines, number, source):
            found = [one for one in found if one.what != MIXED_RELEASES]
        elif raised and signs.is_call_between_packages(line, lines_above(lines, number), source):
            found = [*found, Found(Kind.SYMPTOM, MIXED_RELEASES, signs.CALL_BETWEEN_PACKAGES, raised.start)]
        if raised and signs.is_from_source(line, lines_above(lines, number), source):
            found = [one for one in found if one.kind is not Kind.SYMPTOM]
            found.append(Found(Kind.SYMPTOM, HIDDEN_BY_SOURCE, signs.FROM_SOURCE, raised.start))
        found = [one for one in found if fits(one.what, lines, number)]
        new: list[Found] = []
        command = (
            self._commands.number_at(self._offset + _start_of(lines, number))
            if found and self._commands.is_session
            else 0
        )
        went_on = self._goes_on_from is not None and number > self._goes_on_from
        for one in found:
            self.counts[one.kind, one.what if one.kind is not Kind.EXCEPTION else one.by] += 1
            what = one.what if one.kind is not Kind.EXCEPTION else ""
            key = (one.kind, what, one.by, source, file, gravity > QUOTED, attempt, went_on, command)
            if key not in self._seen and len(self.sightings) + len(new) < _KEPT:
                self._seen.add(key)
                new.append(one)
        if not new:
            return False
        new = [with_details(one, lines, number) for one in new]
        at = _start_of(lines, number) + start
        own = moment_of(line)
        moment = own or moment_near(lines, number, source)
        if any(one.kind is Kind.ROOT_CAUSE for one in new):
            source = rank_below(lines, number) or source
        advice = advice_begins(line)
        place = signs.place_of(lines_above(lines, number), source) if raised in new else None
        shown = mask(line)  # before anything is cut: a part of a credential has no shape of one
        for one in new:
            quoted = _around(shown, one.start if shown == line else len(mask(line[: one.start])))
            self.sightings.append(
                Sighting(
                    found=one,
                    file=file,
                    line=self._lines + data.count(b"\n", 0, at) + 1,
                    offset=self._offset + at,
                    text=_around(line, one.start),
                    quoted=message_of(quoted) if self._in_json else quoted,
                    source=source,
                    moment=moment,
                    moment_near=own is None and moment is not None,
                    gravity=gravity,
                    advice=one.start >= advice,
                    attempt=attempt,
                    beside=sentence_beside(line, lines, number) if _wraps(one) else None,
                    place=place if one.kind in (Kind.EXCEPTION, Kind.LIMIT) else None,
                    command=command,
                )
            )
        return True

    def _is_fault_of_a_package(self, raised: str, line: str, lines: list[bytes], number: int, source: Source) -> bool:
        """Whether a package refuses its own call: by the frames above, or by those where this was raised before."""
        within = (signs.is_call_within_a_package, signs.is_call_within_vllm)
        if any(is_within(line, lines_above(lines, number), source) for is_within in within):
            self._faults_of_packages.add(raised)
        return raised in self._faults_of_packages


def _start_of(lines: list[bytes], number: int) -> int:
    """Where a line begins in its block."""
    return sum(map(len, lines[:number])) + number


def _stamp(lines: Iterable[bytes]) -> Moment | None:
    """The first time stamp of some lines."""
    stamps = (moment_of(line[:300].decode("utf-8", "replace")) for line in islice(lines, _STAMPED))
    return next(filter(None, stamps), None)


def _strip_docker(data: bytes) -> bytes:
    """Some lines of a log without the objects of Docker's logs."""
    return without_json(data) if DOCKER in data else data


def _is_foreign(block: bytes) -> bool:
    """Whether much of a text is in a non-Latin script."""
    sample = block[:65536].decode("utf-8", "replace")
    letters = [character for character in sample if character.isalpha() or character == "\ufffd"]
    return bool(letters) and sum(1 for letter in letters if letter > "\u024f") > len(letters) / 5


def _wraps(found: Found) -> bool:
    """Whether this is a code that only wraps the lines beside it."""
    code = knowledge.errors().code(found.what) if found.kind is Kind.CODE else None
    return code is not None and code.generic


def _around(line: str, start: int) -> str:
    """The line to keep: without trailing blanks, cut around the match."""
    text = line.rstrip()
    if len(text) <= _SHOWN:
        return text.strip()
    begin = max(0, min(start - 80, len(text) - _SHOWN))
    return f"{'...' if begin else ''}{text[begin : begin + _SHOWN].strip()}..."
