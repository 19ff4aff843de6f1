"""`npudoctor demo` opens the terminal interface on a terminal, and is a check elsewhere."""

from typing import Any

import pytest

from npudoctor.cli import tui

from .conftest import Command


@pytest.mark.parametrize(
    ("words", "opened"),
    [((), ["new-node"]), (("--simulate", "sick-cards"), ["sick-cards"]), (("--json",), []), (("-v",), [])],
)
def test_the_interface_is_opened_on_a_terminal_without_options(
    npudoctor: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], opened: list[str]
) -> None:
    shown: list[str] = []

    def run(args: Any) -> int:
        shown.append(args.simulate)
        return 0

    monkeypatch.setattr(tui, "on_a_terminal", lambda: True)
    monkeypatch.setattr(tui, "run", run)
    ran = npudoctor("demo", *words)
    assert shown == opened
    assert ran.code == (0 if opened else 1)
