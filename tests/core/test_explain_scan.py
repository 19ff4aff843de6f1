"""Reading logs of any size: the same in whatever pieces they come, in bounded memory, with true places."""

import bz2
import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.explain import unpack
from npudoctor.explain.patterns import Kind, Sought
from npudoctor.explain.scan import Scanner

SOUGHT = Sought()
LOGS = Path(__file__).parent / "data" / "logs"
TO_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
BIND = b"EJ0003: Failed to bind the IP port. Reason: The IP address and port have been bound already.\n"


def scanned(data: bytes | Iterable[bytes]) -> Scanner:
    scanner = Scanner(SOUGHT)
    scanner.read("log", [data] if isinstance(data, bytes) else data)
    return scanner


def places(scanner: Scanner) -> list[tuple[object, ...]]:
    return [(one.found.kind, one.found.what, one.line, one.offset, one.text) for one in scanner.sightings]


def test_a_packed_log_is_read_like_the_log() -> None:
    data = (LOGS / "P023-two-processes-on-a-card.txt").read_bytes()
    packed = gzip.compress(data[:500]) + gzip.compress(data[500:]) + b"\0\0"
    assert places(scanned(packed[at : at + 7] for at in range(0, len(packed), 7))) == places(scanned(data)) != []
    assert scanned(packed).files[0].stopped is None


def test_a_packed_log_that_is_damaged_is_read_as_far_as_it_goes() -> None:
    noise = random.Random(3).randbytes(60_000).hex().encode()
    packed = gzip.compress(BIND * 20 + noise + b"\n")
    for broken, said in (
        (packed[:-400], "a gzip file that ends early"),
        (packed[:30_000] + b"\0" * 300 + packed[30_300:], "a damaged gzip file"),
    ):
        scanner = scanned(broken)
        assert {one.found.what for one in scanner.sightings} >= {"P003"}
        assert scanner.files[0].stopped == said


def test_a_packed_log_of_many_times_its_size_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "FREE_BYTES", 1 << 20)
    packed = gzip.compress(b"a line\n" * (2 << 20))
    file = scanned(packed).files[0]
    assert file.stopped and "unpacks to more than" in file.stopped
    assert file.bytes < 8 << 20


@pytest.mark.thorough
@given(st.lists(st.integers(1, 400), max_size=40))
def test_the_pieces_in_which_a_log_comes_change_nothing(sizes: list[int]) -> None:
    data = (LOGS / "P023-two-processes-on-a-card.txt").read_bytes() + (LOGS / "P006-slim-image.txt").read_bytes()

    def pieces() -> Iterator[bytes]:
        rest = data
        for size in sizes:
            yield rest[:size]
            rest = rest[size:]
        yield rest

    assert places(scanned(piece for piece in pieces() if piece)) == places(scanned(data)) != []


def test_line_and_offset_lead_to_the_line() -> None:
    data = b"".join(b"step %d loss %f\n" % (number, number / 7) for number in range(30_000)) + BIND + b"end\n"
    for one in scanned(data).sightings:
        assert data.split(b"\n")[one.line - 1] == BIND.strip()
        assert data[one.offset :].startswith(BIND)


def test_carriage_returns_neither_hide_lines_nor_shift_their_numbers() -> None:
    scanner = scanned(b"one\r\n 10%\r 20%\r" + BIND.replace(b"\n", b"\r\n") + b"two\r\n")
    assert {one.line for one in scanner.sightings} == {2}
    assert {one.found.what for one in scanner.sightings} == {"EJ0003", "P003"}


def test_colours_do_not_hide_and_control_characters_are_shown_escaped() -> None:
    scanner = scanned(b"\x1b[31mERROR\x1b[0m Failed to\x1b[1m bind the IP port\x07\n")
    assert [one.found.what for one in scanner.sightings] == ["P003"]
    assert scanner.sightings[0].text == "ERROR Failed to bind the IP port\\x07"


def test_the_first_of_each_rank_is_kept_and_the_rest_counted() -> None:
    data = b"".join(b"[rank%d]: %s" % (number % 4, BIND) for number in range(1000))
    scanner = scanned(data)
    codes = [one for one in scanner.sightings if one.found.kind is Kind.CODE]
    assert [(one.source.rank, one.line) for one in codes] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert scanner.counts[Kind.CODE, "EJ0003"] == 1000


def test_a_rank_that_is_late_is_not_lost_in_a_flood_of_the_same() -> None:
    data = b"[rank0]: EZ9999: Inner Error!\n" * 1500 + b"[rank1]: EZ9999: Inner Error!\n"
    assert [one.source.rank for one in scanned(data).sightings] == [0, 1]


def test_a_code_after_many_lines_that_differ_in_nothing_but_the_number() -> None:
    data = b"call rtMalloc failed, ret[0]\n" * 200 + b"call rtMalloc failed, ret[207001]\n"
    assert [one.found.what for one in scanned(data).sightings] == ["207001"]


@pytest.mark.thorough
def test_a_flood_of_errors_that_differ_in_words_stays_bounded_and_hides_nothing_else() -> None:
    def flood() -> Iterator[bytes]:
        for number in range(40):
            names = (f"{number * 1000 + each:x}".translate(TO_LETTERS) for each in range(1000))
            yield b"".join(b"OSError: [Errno 28] No space left on device: '/%s'\n" % name.encode() for name in names)
        yield b"[rank7]: " + BIND

    scanner = scanned(flood())
    assert scanner.sightings[-1].found.what == "P003"
    assert {one.found.what for one in scanner.sightings} >= {"P065", "EJ0003", "P003"}
    assert len(scanner.sightings) < 20


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["RuntimeError: it came to an end", "my.module.OddError: bad thing"])
def test_a_flood_of_lines_with_the_same_word_hides_no_exception_at_the_end(ending: str) -> None:
    def flood() -> Iterator[bytes]:
        for number in range(8000):
            word = f"{number * 7919:x}".translate(TO_LETTERS).encode()
            yield b"INFO request %s: Error: %s was refused\n" % (word, word[::-1])
        yield b'Traceback (most recent call last):\n  File "/path/to/train.py", line 3, in main\n%s\n' % ending.encode()

    scanner = scanned(flood())
    assert [one.text for one in scanner.sightings if one.found.kind is Kind.EXCEPTION][-1:] == [ending]


@pytest.mark.thorough
def test_a_flood_of_ranks_stays_bounded() -> None:
    scanner = scanned(
        b"".join(b"[rank%d]: ValueError: %s\n" % (number, b"wxyz"[: number % 5]) for number in range(9000))
    )
    assert 1000 < len(scanner.sightings) <= 4000


@pytest.mark.thorough
def test_a_line_without_end_is_searched_and_quoted_in_part() -> None:
    data = b"x" * 3_000_000 + b" Failed to bind the IP port " + b"y" * 3_000_000
    scanner = scanned(data[start : start + 65536] for start in range(0, len(data), 65536))
    assert {one.found.what for one in scanner.sightings} == {"P003"}
    assert all(len(one.text) < 500 and "Failed to bind the IP port" in one.text for one in scanner.sightings)
    assert all(one.line == 1 for one in scanner.sightings)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0\0", "binary"),
        (bz2.compress(BIND), "compressed (bzip2)"),
        (b"", "empty"),
    ],
)
def test_what_is_no_log_is_named_and_not_searched(data: bytes, problem: str) -> None:
    scanner = scanned([data] if data else [])
    assert [file.problem for file in scanner.files] == [problem]
    assert scanner.sightings == []


@pytest.mark.parametrize("zeros", [16, 5000, 200_000])
def test_a_log_that_was_cut_while_its_writer_went_on_is_read(zeros: int) -> None:
    scanner = scanned([b"\0" * zeros + b"\n" + BIND])
    assert "P003" in {one.found.what for one in scanner.sightings}
    assert scanner.files[0].problem is None


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_read(mark: str) -> None:
    data = ("\ufeff" + "日志\r\n" * 3000 + BIND.decode()).encode(mark)
    scanner = scanned(data[at : at + 4099] for at in range(0, len(data), 4099))
    assert "P003" in {one.found.what for one in scanner.sightings}
    assert scanner.files[0].problem is None


def test_a_line_without_a_stamp_has_that_of_its_own_source() -> None:
    lines = (
        "(Worker pid=4021, ip=10.0.0.2) [ERROR] 2026-03-01-10:00:05 (PID:4021, Device:1, RankID:1) ERR02200 failed.",
        "(Worker pid=4021, ip=10.0.0.2) EJ0003: Failed to bind the IP port.",
        "(Worker pid=4022, ip=10.0.0.3) [ERROR] 2026-03-01-10:02:05 (PID:4022, Device:0, RankID:9) ERR02200 failed.",
    )
    bound = [one for one in scanned("\n".join(lines).encode()).sightings if one.found.what == "EJ0003"]
    assert [str(one.moment) for one in bound] == ["2026-03-01 10:00:05"]


def test_another_language_is_noticed_and_searched_all_the_same() -> None:
    chinese = "程序启动失败，请检查环境变量设置是否正确。\n" * 50
    assert scanned(chinese.encode()).files[0].foreign
    assert scanned((chinese + "报错：EJ0003 端口被占用\n").encode()).counts[Kind.CODE, "EJ0003"] == 1
    assert not scanned(BIND * 3).files[0].foreign


@given(st.binary(max_size=3000))
def test_no_bytes_upset_it(data: bytes) -> None:
    scanner = scanned([data] if data else [])
    assert all(1 <= one.line <= data.count(b"\n") + 1 and 0 <= one.offset < len(data) for one in scanner.sightings)


TRACEBACK = (
    "2025-03-04 10:00:00 start",
    "[rank3]: Traceback (most recent call last):",
    '  File "<stdin>", line 1, in <module>',
    "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
)


def docker(lines: Iterable[str]) -> bytes:
    rows = (
        {"log": f"{line}\n", "stream": "stderr", "time": f"2025-03-04T10:00:{second:02}.123456789Z"}
        for second, line in enumerate(lines)
    )
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def kubernetes(lines: Iterable[str]) -> bytes:
    return "".join(f"2025-03-04T10:00:{n:02}.123456789Z stderr F {line}\n" for n, line in enumerate(lines)).encode()


@pytest.mark.parametrize("wrap", [docker, kubernetes])
def test_the_lines_of_containers_logs_are_read_without_what_wraps_them(
    wrap: Callable[[Iterable[str]], bytes],
) -> None:
    data = wrap([*TRACEBACK, 'he said "<no>"'])
    made = Scanner(SOUGHT)
    read = made.read("log", [data])
    [symptom] = [one for one in made.sightings if one.found.what == "P001" and one.found.kind is Kind.SYMPTOM]
    assert (symptom.line, symptom.source.rank) == (4, 3)
    assert symptom.moment and str(symptom.moment) == "2025-03-04 10:00:03.123"
    [exception] = [one for one in made.sightings if one.found.kind is Kind.EXCEPTION]
    assert exception.found.what.startswith("ImportError: libhccl.so: cannot open shared object file")
    assert (read.lines, read.bytes) == (5, len(data))
    assert (str(read.began), str(read.ended)) == ("2025-03-04 10:00:00.123", "2025-03-04 10:00:04.123")


@pytest.mark.parametrize("line", ['{"log":"EI0006', '{"log":6}', '{"log":"x","time":[1]}', '{"log":"' + "[" * 9000])
def test_damaged_lines_of_docker_are_read_as_they_are(line: str) -> None:
    made = Scanner(SOUGHT)
    read = made.read("log", [f'{line}\n{{"log":"EI0006: "}}\n'.encode()])
    assert any(one.found.what == "EI0006" for one in made.sightings)
    assert read.lines == 2
