"""What a log is sifted by: no line that could match is lost, few others pass."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import knowledge
from npudoctor.explain import patterns, prefilter
from npudoctor.explain.patterns import Kind, Sought
from tools import pages

SOUGHT = Sought()
SIEVE = SOUGHT.sieve
SYMPTOMS = sorted(
    {
        (pitfall.id, one)
        for pitfall in knowledge.pitfalls().rows
        for one in (*pitfall.symptoms, *pitfall.hints, *pitfall.general)
    }
)
PHRASES = [one for _, one in SYMPTOMS if prefilter.words_of(one)]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (r"Failed to bind the IP port", {"Failed to bind the IP port"}),
        (r"host nic listen start failed, port\[\d+\]", {"host nic listen start failed, port["}),
        (r"errno: 98 - Address already in use", {" - Address already in use"}),
        (
            r"The server socket has failed to (bind|listen)",
            {"The server socket has failed to bind", "The server socket has failed to listen"},
        ),
        (r"\b(?:Import|OS)(?:Error|Exit)\b: ", {"ImportError: ", "ImportExit: ", "OSError: ", "OSExit: "}),
        (r"\bHCCL\b.{0,80}\b(?:connect|socket)", {"connect", "socket"}),
        (r"(?:un|in)?valid (?:open|read|load|find|copy)s?", {"valid "}),
        (r"(bind|bound|listen).*\b16666\b", {"bind", "bound", "listen"}),
        (r"(Bus error)+", {"Bus error"}),
        (r"(?:long enough)?x*abc", None),
        (r"EJ\d{4}", None),
        (r"(abcd|\d+)", None),
    ],
)
def test_the_words_that_an_expression_needs(expression: str, words: set[str] | None) -> None:
    assert prefilter.words_of(expression) == words


def test_a_sieve_passes_lines_with_a_word_and_no_others() -> None:
    made = prefilter.Sieve({"Failed to bind", "(in brackets)", "is gone."}, [("E", r"[A-Z]\d{4}")])
    for line in (b"x Failed to bind y", b"it (in brackets) z", b"it is gone.", b"EI0006"):
        assert made.passes(line), line
    for line in (b"", b"Failed", b"bind", b"in brackets", b"is gone, no", b"EI006", "日志 E".encode()):
        assert not made.passes(line), line


def test_a_long_word_passes_only_as_a_whole() -> None:
    made = prefilter.Sieve({"Failed to bind the IP port", "Failed to bind the IP address", "the IP"})
    assert {*made.words_in(b"x Failed to bind the IP port y")} == {b"the IP", b"Failed to bind the IP port"}
    assert made.passes(b"Failed to bind the I") is None
    assert made.passes(b"Failed to bind the IP port", {b"the IP"}) == b"Failed to bind the IP port"


@given(st.sets(st.text("abcdeFk []()|.*\\", min_size=4, max_size=20), min_size=1, max_size=12), st.data())
def test_every_word_passes_wherever_it_stands(words: set[str], data: st.DataObject) -> None:
    made = prefilter.Sieve(words)
    word = data.draw(st.sampled_from(sorted(words)))
    around = data.draw(st.text("xyz ", max_size=5))
    assert made.passes(f"{around}{word}{around}".encode())


@pytest.mark.thorough
@given(st.data())
def test_no_line_that_shows_a_symptom_is_sifted_out(data: st.DataObject) -> None:
    expression = data.draw(st.sampled_from(PHRASES))
    most = 126 if expression.isascii() else 0xFFFF
    printable = st.characters(min_codepoint=32, max_codepoint=most, exclude_categories=["Cs"])
    line = data.draw(st.from_regex(re.compile(expression, re.ASCII), alphabet=printable)).replace("\n", " ")
    if re.search(expression, line):
        assert SIEVE.passes(line.encode()), line


def test_every_symptom_that_is_no_code_has_a_word_without_digits() -> None:
    for pitfall, expression in SYMPTOMS:
        words = prefilter.words_of(expression)
        code = re.search(r"\d{4}|\\d", expression)
        assert words or code, f"{pitfall}: {expression}"
        assert not any(character.isdigit() for word in words or () for character in word)


def test_the_table_has_the_words_of_every_expression() -> None:
    made = json.loads(pages.WORDS.read_text(encoding="utf-8"))
    assert made == pages.words(), "python -m tools.pages makes it anew"
    assert len(made["words"]) == len({one for _, _, one in patterns.expressions()})


@pytest.mark.parametrize(
    "line",
    [
        "iteration 17/5000 | loss 2.31 | grad norm 0.4",
        "[INFO] HCCL(12,python3):2025-11-03-10:00:02.100.100 [op_base.cc:1292] [12]Entry-HcclAllReduce: tag[x], n[9]",
        "Downloading shards: 100%",
        "the quick brown fox jumps over the lazy dog",
    ],
)
def test_everyday_lines_do_not_pass(line: str) -> None:
    assert not SIEVE.passes(line.encode())
    assert SOUGHT.find(line) == []


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("EI0006: [PID: 1] Getting", ["EI0006"]),
        ("[PID: 1] 2026-01-01 Get_Socket_Timeout(EI0006): Getting", ["EI0006"]),
        ("EH9999[PID: 3] 2025-12-12 (EH9999):  x", ["EH9999", "EH9999"]),
        ("error: hcclCommInitRootInfoConfig(n, &root, rank, &(comm->hcclComm_)), error code is 7", ["HCCL 7"]),
        ("[AllocSubCommLinks]call trace: hcclRet -> 9", ["HCCL 9"]),
        ("Device 8 call rtSetDevice failed, ret[107001].", ["107001"]),
        ("aclrtSetDevice(deviceId) failed: 507033 (main.cpp:80)", ["507033"]),
        ("dcmi module initialize failed. ret is -8005", ["-8005"]),
        ("Error Code : 80E3A203", ["80E3A203"]),
        ("an EI0099 that nobody knows", ["EI0099"]),
        ("step 507033 of 600000", []),
        ("commit ABCDEF12", []),
    ],
)
def test_codes_in_both_spellings(line: str, codes: list[str]) -> None:
    found = [one.what for one in SOUGHT.find(line) if one.kind is Kind.CODE]
    assert found == codes
    assert not codes or SIEVE.passes(line.encode())


@pytest.mark.parametrize(
    ("line", "exception"),
    [
        ("KeyError: 'x'", "KeyError: 'x'"),
        ("[rank3]: torch.OutOfMemoryError: NPU out", "OutOfMemoryError: NPU out"),
        ("(W pid=3) ERROR 08-26 04:05:22 [a.py:5] ValueError: no", "ValueError: no"),
        ("E   AssertionError: 1 == 2", "AssertionError: 1 == 2"),
        ("we saw a KeyError: it was caught", None),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", None),
    ],
)
def test_exceptions_are_told_from_talk_about_them(line: str, exception: str | None) -> None:
    found = [one.what for one in SOUGHT.find(line) if one.kind is Kind.EXCEPTION]
    assert found == ([exception] if exception else [])


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'a'",
        "(VllmWorkerProcess pid=7246) ERROR 09-24 02:23:30 multiproc_worker_utils.py:242] KeyError: 'a'",
        "(EngineCore_DP0 pid=1000) ERROR 11-11 10:00:00 [core.py:700] KeyError: 'a'",
        "# [Bug]: KeyError: 'a'",
        "> KeyError: 'a'",
        "app-1  | KeyError: 'a'",
        "\u2502 KeyError: 'a'",
        "  12 KeyError: 'a'",
        "E   KeyError: 'a'",
        "\u8fd0\u884c\u62a5\u9519KeyError: 'a'",
        r"""{"log": "Traceback (most recent call last):\n  File x\nKeyError: 'a'\nend"}""",
    ],
)
def test_an_exception_is_found_behind_what_programs_and_people_put_before_it(line: str) -> None:
    [raised] = [one.what for one in SOUGHT.find(line) if one.kind is Kind.EXCEPTION]
    assert raised == "KeyError: 'a'"


@pytest.mark.parametrize("piece", ["[a] ", "(a) ", "ERROR 2026-01-01 00:00:00 ", "12 ", "a.", "a | ", "# ", r"\n[a] "])
def test_what_precedes_an_exception_takes_linear_time(piece: str) -> None:
    SOUGHT.find(piece * 400 + "Error: ")  # 24 of them once took half a minute
