"""What the import scripts print, and how their ends are understood."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.python.devices import parse_math
from npudoctor.facts.python.imports import TorchImport, first_line, parse_attempt
from npudoctor.sdk import Completed, ParseError

AUTOLOAD = (
    "RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto-loading with "
    "TORCH_DEVICE_BACKEND_AUTOLOAD=0. (ImportError: libhccl.so: cannot open shared object file)"
)


def ended(said: object = None, *, returncode: int | None = 0, stderr: str = "", timed_out: bool = False) -> Completed:
    stdout = "" if said is None else json.dumps(said) + "\n"
    return Completed(returncode=returncode, stdout=stdout, stderr=stderr, seconds=3.4, timed_out=timed_out)


def test_an_import_that_works_tells_its_versions() -> None:
    said = {"ok": True, "version": "2.13.0", "device_count": 8, "devices": ["Ascend910B1"] * 8, "available": True}
    attempt = parse_attempt(ended(said), "import torch_npu")
    assert (attempt.ok, attempt.version, attempt.device_count, len(attempt.devices)) == (True, "2.13.0", 8, 8)


def test_lines_around_the_object_do_not_matter() -> None:
    done = Completed(returncode=0, stdout='start-up\n{"a": 1}\n{"ok": true, "version": "2.1.0"}\nbye\n')
    assert parse_attempt(done, "import torch").version == "2.1.0"


def test_a_crash_is_named_by_its_signal_its_last_line_and_its_place() -> None:
    stderr = (
        "loading kernels\nFatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
        '  File "/env/torch_npu/__init__.py", line 16 in <module>\n  File "<frozen importlib._bootstrap>", line 241\n'
    )
    attempt = parse_attempt(ended(returncode=-11, stderr=stderr), "import torch_npu")
    assert (attempt.signal, attempt.last_line) == ("SIGSEGV", "loading kernels")
    assert attempt.failure == "crashed with SIGSEGV in /env/torch_npu/__init__.py, line 16"
    assert "Segmentation fault" in attempt.message


def test_a_hang_is_an_end_too() -> None:
    attempt = parse_attempt(ended(returncode=None, timed_out=True), "import torch_npu")
    assert (attempt.ok, attempt.timed_out) == (False, True)
    assert attempt.failure.startswith("timed out after")


def test_a_megabyte_of_stderr_is_cut_to_its_end() -> None:
    attempt = parse_attempt(ended({"ok": True}, stderr="x" * (1 << 20) + "\nlast words\n"), "import torch")
    assert attempt.ok
    assert len(attempt.stderr) <= 2000
    assert attempt.stderr.endswith("last words")


def test_an_exit_without_a_word_is_a_failure_and_silence_is_not_understood() -> None:
    attempt = parse_attempt(ended(returncode=1, stderr="Traceback\nImportError: no\n"), "import torch")
    assert attempt.error == "ImportError: no"
    with pytest.raises(ParseError):
        parse_attempt(ended(), "import torch")


def test_the_autoload_is_told_from_a_torch_that_is_broken_itself() -> None:
    plain = parse_attempt(ended({"ok": False, "error": AUTOLOAD}), "import torch")
    alone = parse_attempt(ended({"ok": True, "version": "2.13.0"}), "import torch")
    broken = parse_attempt(ended({"ok": False, "error": "ImportError: libgomp"}), "import torch")
    assert not TorchImport(plain, alone).is_broken_itself
    assert not TorchImport(plain).is_broken_itself
    assert TorchImport(broken, broken).is_broken_itself
    assert TorchImport(broken).is_broken_itself
    assert not TorchImport(alone).is_broken_itself
    assert first_line(AUTOLOAD) == "ImportError: libhccl.so: cannot open shared object file"


@given(st.text(), st.text(), st.one_of(st.none(), st.integers(-64, 255)))
def test_any_end_is_understood_or_refused(stdout: str, stderr: str, returncode: int | None) -> None:
    done = Completed(returncode=returncode, stdout=stdout, stderr=stderr, timed_out=returncode is None)
    try:
        attempt = parse_attempt(done, "import torch")
    except ParseError:
        return
    assert attempt.ok or attempt.failure


def test_products_are_read_by_card() -> None:
    text = (
        '{"ok": false, "devices": {"0": {"ok": true, "max_abs_error": 0.0, "seconds": 0.8},'
        ' "3": {"ok": false, "error": "E"}, "5": {"skipped": "busy"}}}'
    )
    cards = parse_math(text).cards
    assert [cards[number].ok for number in (0, 3, 5)] == [True, False, None]
    assert cards[5].skipped == "busy"
    assert parse_math('{"ok": false, "devices": {}, "error": "no torch"}').error == "no torch"


@pytest.mark.parametrize("text", ["", "{}", '{"devices": 1}', '{"devices": {"x": {}}}', '{"devices": {"0": {}}}', "[]"])
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_math(text)


@given(st.text())
def test_any_text_of_products_is_understood_or_refused(text: str) -> None:
    try:
        parse_math(text)
    except ParseError:
        return
