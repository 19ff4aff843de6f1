"""Finding a check, a finding, a variable, a code or a fix by any of its words."""

import threading
from typing import Any

import pytest
from textual.widgets import OptionList

from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import explaining
from npudoctor.tui.model.diagnosis import Shown
from npudoctor.tui.screens.explain import Explain
from npudoctor.tui.screens.fix import FixDialog
from npudoctor.tui.widgets.check_list import CheckList
from tests.tui.driving import FEW, Driver, play, press, text, until
from tests.tui.test_views import looked_at


@pytest.fixture(autouse=True)
def _a_terminal_with_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.mark.parametrize(
    "words",
    [
        "ports 60000",
        "EI0019",
        "p003",
        "ip_local_port_range",
        "hccl.reserve-ports",
        "hccl.ports-reserved/unreserved",
        "tee 99-npudoctor",
    ],
)
def test_the_filter_takes_words_of_findings_evidence_codes_commands_and_fixes(words: str) -> None:
    _, diagnosis = looked_at("new-node")
    rows = [row.check for section in diagnosis.sections(Shown(words=words)) for row in section.rows]
    assert "hccl.ports-reserved" in rows and len(rows) <= 3


def test_the_codes_of_a_finding_are_known() -> None:
    _, diagnosis = looked_at("new-node")
    assert diagnosis.codes_of("hccl.ports-reserved") == ["P003", "EJ0003", "EI0019", "hccl.ports-reserved"]
    assert diagnosis.codes()["EI0019"] == "hccl.ports-reserved"
    assert diagnosis.fixes_of("hccl.ports-reserved") == {"hccl.reserve-ports"}


def test_codes_known_issues_and_checks_are_explained_and_others_said_to_be_unknown() -> None:
    session, _ = looked_at("new-node")
    for name in ("EI0019", "P003", "hccl.ports-reserved"):
        assert len(explaining.explain_lines(session, name)) >= 2, name
    told = dict(explaining.explain_lines(session, "P001"))
    assert {"  cause", "  codes", "  detected by", "  do", "  shows"} <= {label.rstrip() for label in told}
    assert told["  detected by  "].startswith("npudoctor check cann.environment")
    ((heading, said),) = explaining.explain_lines(session, "no-such-code")
    assert heading == "" and "no-such-code" in said


@pytest.mark.parametrize(
    ("words", "found", "arrives"),
    [
        ("EI0019", "explain EI0019", lambda app: isinstance(app.screen, Explain) and "EI0019" in text(app)),
        ("P016", "explain P016", lambda app: isinstance(app.screen, Explain) and "P016" in text(app)),
        (
            "HCCL ports reserved",
            "hccl.ports-reserved: HCCL ports reserved",
            lambda app: app.screen.query_one(CheckList).chosen == "hccl.ports-reserved",
        ),
        (
            "ip_local_reserved_ports",
            "/proc/sys/net/ipv4/ip_local_reserved_ports: nothing",
            lambda app: app.screen.query_one(CheckList).chosen == "hccl.ports-reserved",
        ),
        ("fix hccl.reserve", "fix hccl.reserve-ports", lambda app: isinstance(app.screen, FixDialog)),
        (
            "HCCL_BUFFSIZE",
            "HCCL_BUFFSIZE sets",
            lambda app: app.current_mode == "environment" and " HCCL_BUFFSIZE" in text(app),
        ),
        ("system.shm", "system.shm:", lambda app: app.screen.query_one(CheckList).chosen == "system.shm"),
    ],
)
def test_the_palette_finds_codes_fixes_variables_and_checks(words: str, found: str, arrives) -> None:  # type: ignore[no-untyped-def]
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "ctrl+p", *["space" if letter == " " else letter for letter in words])
        await until(pilot, lambda: _first(app).startswith(found))
        await press(pilot, "enter")
        await until(pilot, lambda: arrives(app))

    play("new-node", acts, names=FEW, size=(120, 36))


def _first(app: DoctorApp) -> str:
    """The first entry of the palette."""
    entry: Any = app.screen.query_one(OptionList).get_option_at_index(0)
    return str(entry.hit.text)


def test_explain_opens_from_the_selected_problem() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        app.screen.query_one(CheckList).choose("hccl.ports-reserved")
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(app.screen, Explain))
        await press(pilot, "down", "down")
        await until(pilot, lambda: "EI0019" in text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: not isinstance(app.screen, Explain))

    play("new-node", acts, names=FEW)


def test_an_explanation_that_comes_after_its_dialog_was_closed_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, closed, told = threading.Event(), threading.Event(), threading.Event()

    def slowly(*_: Any) -> list[tuple[str, str]]:
        asked.set()
        closed.wait(300)
        told.set()
        return [("", "late")]

    monkeypatch.setattr(explaining, "explain_lines", slowly)

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await press(pilot, "x")
        await until(pilot, asked.is_set)
        await press(pilot, "escape")
        await until(pilot, lambda: not isinstance(app.screen, Explain))
        closed.set()
        await until(pilot, told.is_set)
        await press(pilot, "2")
        await until(pilot, lambda: app.current_mode == "cards")

    play("new-node", acts, names=FEW)


def test_titles_are_beside_ids_where_there_is_room() -> None:
    async def acts(app: DoctorApp, pilot: Driver) -> None:
        await until(pilot, lambda: "npu.present  Ascend NPUs present" in text(app))

    play("new-node", acts, names=FEW, size=(160, 48))
