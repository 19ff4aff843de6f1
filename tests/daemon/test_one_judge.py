"""A chip has one state, whoever shows it: the checks, the Cards screen, the daemon, its metrics, healthcheck, smoke."""

import json
import re
from pathlib import Path

import pytest

from npudoctor import engine, plugins, sim
from npudoctor.cli import main
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.web import api
from npudoctor.findings import Severity
from npudoctor.sdk import Options
from npudoctor.selection import Selection
from npudoctor.smoke import plan
from npudoctor.smoke.plan import Request
from npudoctor.smoke.session import Session as Smoke
from npudoctor.tui.chip_lines import line
from npudoctor.tui.marks import STYLES
from npudoctor.tui.model import cards
from npudoctor.tui.model.diagnosis import Diagnosis, State
from npudoctor.tui.model.series import Series
from npudoctor.tui.model.session import Session
from tests.daemon.conftest import Asker, Watch
from tests.daemon.test_answers import samples
from tests.tui.driving import node_of

CHIP = "npu:2"
STATES = {
    "OK": "ok",
    "ok": "ok",
    "Warning": "warning",
    "": "warning",
    "Alarm": "error",
    "Critical": "error",
    "Offline": "error",
}


@pytest.fixture(params=STATES, ids=lambda word: word or "blank")
def word(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scenario(word: str, tmp_path: Path) -> str:
    """A healthy node whose npu-smi has this word for the health of one chip."""
    product = 'about = "for a test"\nproduct = "atlas-800t-a2-910b3"\nhostname = "n"\n'
    path = tmp_path / "node.toml"
    path.write_text(product, encoding="utf-8")
    table = sim.simulate(str(path)).run(["npu-smi", "info"]).stdout
    said, count = re.subn(r"(?m)^(\| 2 .*?\| )OK {12}", rf"\g<1>{word:<14}", table)
    assert count == 1
    path.write_text(f'{product}[commands."npu-smi info"]\nstdout = {json.dumps(said)}\n', encoding="utf-8")
    return str(path)


def by_the_check(scenario: str) -> str:
    selection = Selection(names=("npu.health",), options=Options())
    done = list(engine.run(plugins.load(), sim.simulate(scenario), selection))[-1]
    assert isinstance(done, engine.Done)
    found = [one for result in done.report.results for one in result.findings]
    assert {one.subject for one in found} <= {CHIP}
    return max((one.severity for one in found), default=Severity.INFO).value.replace("info", "ok")


def test_a_chip_has_one_state_everywhere(
    word: str, scenario: str, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = STATES[word]
    assert by_the_check(scenario) == expected

    session = Session(lambda: node_of("--simulate", scenario))
    row = next(row for row in cards.read(session, Diagnosis()).rows if row.chip.subject == CHIP)
    assert (row.state().value, row.state("npu.health").value) == (expected, expected)
    shown = line(row, Series(), 120)
    colours = {span.style for span in shown.spans if word and shown.plain[span.start : span.end].strip() == word}
    assert colours <= {STYLES[State(expected)]}

    watched = watch(scenario)
    watched.run(RunKind.STANDARD)
    web = Asker(api(watched.board))
    answer = {card["subject"]: card for card in web.get("/v1/cards").json()["cards"]}
    assert (answer[CHIP]["health"], answer["npu:3"]["health"]) == (expected, "ok")
    code = {"ok": 0, "warning": 1, "error": 2}[expected]
    assert samples(web.get("/metrics").text)["npudoctor_card_health", (("card", CHIP),)] == code
    assert web.get("/readyz").status_code == (503 if expected == "error" else 200)

    assert main(["healthcheck", "--no-daemon", "--simulate", scenario]) == int(expected == "error")
    assert (CHIP in capsys.readouterr().out) is (expected == "error")

    smoke = Smoke(catalog=plugins.load(), host=sim.simulate(scenario), request=Request(), options=Options())
    planned = plan.make(Request(), smoke.look()).planned
    assert (CHIP in {rank.card for rank in planned.ranks}) is (expected != "error")
    notes = [note for note in planned.notes if "npu.health" in note]
    assert len(notes) == int(expected == "warning")
    assert [one.npu for one in planned.excluded] == [CHIP] * (expected == "error")


def test_a_silenced_check_colours_nothing(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[silence]]\nid = "npu.health"\nreason = "known"\n', encoding="utf-8")
    assert main(["healthcheck", "--no-daemon", "--simulate", scenario, "--config", str(config)]) == 0, (
        capsys.readouterr().out
    )
    session = Session(lambda: node_of("--simulate", scenario, "--config", str(config)))
    assert {row.state() for row in cards.read(session, Diagnosis()).rows} == {State.OK}


def test_no_other_module_compares_the_word_for_health() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = [path for folder in ("npudoctor", "checks", "fixes") for path in (root / folder).rglob("*.py")]
    comparing = re.compile(r"\bhealth\b.*(?:==|!=|\bin) *\(?(?:None, *)?[\"'](?:OK|ok)[\"']")
    found = [
        path.relative_to(root).as_posix() for path in sources if comparing.search(path.read_text(encoding="utf-8"))
    ]
    assert [path for path in found if not path.startswith("npudoctor/sim/")] == ["npudoctor/facts/npu_smi/table.py"]
