"""What the daemon answers, in every simulated node, idle and in service; and what it never says."""

import json
from importlib import resources
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from npudoctor import sim
from npudoctor.cli import main
from npudoctor.daemon import answers, state
from npudoctor.daemon.answers import Fitness
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.web import OnThisMachine, api, metrics_alone
from npudoctor.findings import Report
from npudoctor.models import adapter
from npudoctor.report import json as report_json
from npudoctor.sim import scenarios

from .conftest import Asker, Watch, Watched

FIT = {"seed-910b1", "healthy-a3", "healthy-910a", "duo-310p", "new-node", "in-service"}
"""The nodes whose cards are fit, whatever else is wrong with them."""


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def client(watched: Watched) -> Asker:
    return Asker(api(watched.board))


def a_node(tmp_path: Path, text: str) -> str:
    path = tmp_path / "node.toml"
    path.write_text(f'about = "for a test"\nproduct = "atlas-800t-a2-910b3"\nhostname = "n"\n{text}', encoding="utf-8")
    return str(path)


def test_before_the_first_look_nothing_is_called_well(watch: Watch) -> None:
    web = client(watch("seed-910b1"))
    assert web.get("/livez").json()["alive"] is True
    ready = web.get("/readyz")
    assert (ready.status_code, ready.json()["reason"]) == (503, "no result yet: the first run has not ended")
    assert web.get("/v1/report").status_code == 503
    assert web.get("/v1/issues").json()["undetermined"] == ["no result yet: the first run has not ended"]
    assert web.get("/v1/cards").json()["undetermined"]
    assert samples(web.get("/metrics").text)["npudoctor_cards_fit", ()] == 0


@pytest.mark.parametrize("scenario", scenarios())
def test_every_endpoint_keeps_its_contract_in_every_scenario(watch: Watch, scenario: str) -> None:
    watched = watch(scenario)
    watched.run(RunKind.STANDARD)
    watched.run(RunKind.COUNTERS)
    web = client(watched)
    ready = web.get("/readyz")
    assert adapter(answers.Ready).validate_python(ready.json()).ready is (scenario in FIT)
    assert ready.status_code == (200 if scenario in FIT else 503)
    report = adapter(Report).validate_python(web.get("/v1/report").json())
    assert report.profile == "standard"
    issues = adapter(answers.Issues).validate_python(web.get("/v1/issues").json()).issues
    wrong = {
        (result.check, one.subject)
        for result in report.results
        for one in result.findings
        if one.severity.value != "info"
    }
    assert {(one.check, one.subject) for one in issues} == wrong
    opened = adapter(answers.Changes).validate_python(web.get("/v1/history").json()).changes
    assert {(one.check, one.subject) for one in opened if one.kind == "opened"} == wrong
    cards = adapter(answers.Cards).validate_python(web.get("/v1/cards").json()).cards
    figures = samples(web.get("/metrics").text)
    for card in cards:
        code = figures["npudoctor_card_health", (("card", card.subject),)]
        assert code == {"ok": 0, "warning": 1, "error": 2, "unknown": 3}[card.health.value]
    assert figures["npudoctor_cards_fit", ()] == (scenario in FIT)
    for one in issues:
        labels = (("check", one.check), ("subject", one.subject))
        assert figures["npudoctor_check_status", labels] == {"warning": 1, "error": 2}[one.severity.value]


def test_a_working_node_is_not_called_sick(watch: Watch) -> None:
    watched = watch("in-service")
    watched.run(RunKind.STANDARD)
    web = client(watched)
    assert web.get("/readyz").status_code == 200
    assert web.get("/v1/issues").json()["issues"] == []
    cards = web.get("/v1/cards").json()
    assert cards["in_service"] is True
    assert {card["health"] for card in cards["cards"]} == {"ok"}
    assert samples(web.get("/metrics").text)["npudoctor_in_service", ()] == 1


@pytest.mark.parametrize("scenario", [name for name in scenarios() if name not in ("bare-host", "container-broken")])
def test_a_job_changes_nothing_about_the_cards_of_any_node(watch: Watch, tmp_path: Path, scenario: str) -> None:
    text = (resources.files(sim) / "scenarios" / f"{scenario}.toml").read_text(encoding="utf-8")
    path = tmp_path / "busy.toml"
    path.write_text(text if "\njob = " in text else "job = { ranks = 4 }\n" + text, encoding="utf-8")
    watched = watch(str(path))
    watched.run(RunKind.STANDARD)
    web = client(watched)
    assert web.get("/readyz").status_code == (200 if scenario in FIT else 503)
    errors = {one["check"] for one in web.get("/v1/issues").json()["issues"] if one["severity"] == "error"}
    assert not errors & {"npu.processes", "npu.memory-free", "hccl.ports-free", "env.master-port"}
    assert web.get("/v1/cards").json()["undetermined"] is None


def test_nobody_says_ok_where_nobody_could_look(watch: Watch, tmp_path: Path) -> None:
    watched = watch("in-service")
    watched.run(RunKind.STANDARD)
    hanging = sim.simulate(a_node(tmp_path, 'driver = { fault = "hang" }'))
    watched.run(RunKind.QUICK, hanging)
    web = client(watched)
    ready = web.get("/readyz")
    assert ready.status_code == 503
    assert "npu-smi" in ready.json()["reason"]
    assert web.get("/v1/issues").json()["undetermined"]
    cards = web.get("/v1/cards").json()
    assert cards["undetermined"]
    assert cards["cards"]
    assert all((card["health"], card["temperature_celsius"]) == ("unknown", None) for card in cards["cards"])
    figures = samples(web.get("/metrics").text)
    assert {value for (name, _), value in figures.items() if name == "npudoctor_card_health"} == {3}
    for check in ("npu.health", "npu.ecc"):
        assert figures["npudoctor_check_status", (("check", check), ("subject", "all"))] == 3
    watched.run(RunKind.QUICK)
    assert web.get("/readyz").status_code == 200


def test_a_look_that_is_too_old_is_not_believed(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watch("seed-910b1")
    watched.run()
    now = state.now_s()
    monkeypatch.setattr(state, "now_s", lambda: now + 121)
    ready = client(watched).get("/readyz")
    assert (ready.status_code, ready.json()["reason"].partition(":")[0]) == (503, "stale")


def test_a_scheduler_that_does_not_turn_is_not_alive(watch: Watch) -> None:
    watched = watch("seed-910b1")
    watched.board._turned_s = lambda: 31.0
    live = client(watched).get("/livez")
    assert (live.status_code, live.json()["alive"]) == (503, False)


def test_every_card_of_a_fit_node_has_its_device_node(watch: Watch) -> None:
    for scenario, count in (("duo-310p", 4), ("healthy-a3", 16), ("healthy-910a", 8)):
        watched = watch(scenario)
        watched.run()
        assert sorted(card.device or 0 for card in watched.board.view.cards) == list(range(count))
        assert {card.health for card in watched.board.view.cards} == {Fitness.OK}


def test_history_goes_back_page_by_page(watch: Watch) -> None:
    watched = watch("sick-cards")
    for scenario in ("sick-cards", "seed-910b1", "sick-cards"):
        watched.run(RunKind.QUICK, sim.simulate(scenario))
    web = client(watched)
    whole = web.get("/v1/history?limit=1000").json()["changes"]
    pages, before = [], None
    while True:
        page = web.get("/v1/history", params={"limit": 3, **({"before": before} if before else {})}).json()
        pages += page["changes"]
        before = page["next_before"]
        if before is None:
            break
    assert pages == whole
    assert [one["id"] for one in whole] == sorted((one["id"] for one in whole), reverse=True)
    resolved = web.get("/v1/issues?all=true").json()["issues"]
    assert {one["opened"] for one in resolved if one["check"] == "npu.health"} == {2}


@pytest.mark.parametrize(
    "query",
    [
        *(
            "limit=0",
            "limit=1001",
            "limit=-1",
            "limit=x",
            "limit=" + "9" * 5000,
            "limit=%C2%B2",
            "before=1.5",
            "depth=1",
        ),
        *("before=" + "9" * 19, "limit=1&limit=x"),
    ],
)
def test_a_query_that_is_wrong_is_the_asker_s_mistake(watch: Watch, query: str) -> None:
    answer = client(watch("seed-910b1")).get(f"/v1/history?{query}")
    assert answer.status_code == 400
    assert adapter(answers.Problem).validate_python(answer.json()).error


def test_nothing_can_be_changed_and_nothing_else_is_there(watch: Watch) -> None:
    web = client(watch("seed-910b1"))
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"):
        assert web.request(method, "/v1/issues").status_code == 405
    assert web.request("GET", "/v1/issues", content=b"x").status_code == 413
    assert web.request("HEAD", "/v1/issues").status_code == 200
    for path in ("/", "/v1", "/v1/report/", "/V1/report", "/docs", "/openapi.json", "/static/x", "/v1/report%00"):
        assert web.get(path, follow_redirects=False).status_code == 404
    assert "no such path; known are /livez, /readyz, /v1/report, " in web.get("/").text
    for path in ("/../etc/passwd", "/v1/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/report/..%2f..%2fetc"):
        answer = web.get(path)
        assert answer.status_code == 404
        assert "root:" not in answer.text


def test_the_metrics_address_answers_nothing_else(watch: Watch) -> None:
    web = Asker(metrics_alone(watch("seed-910b1").board))
    assert web.get("/metrics").status_code == 200
    for path in ("/livez", "/readyz", "/v1/report", "/v1/issues", "/v1/history", "/v1/cards"):
        assert web.get(path).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("127.0.0.1:9713", 200), ("localhost", 200), ("[::1]:9713", 200), ("LOCALHOST:1", 200), ("[::1]", 200)),
        *(("evil.example", 421), ("127.0.0.1.evil.example:9713", 421), ("localhost:9713@evil.example", 421), ("", 421)),
    ],
)
def test_a_page_of_another_host_is_not_answered_on_the_loopback(watch: Watch, host: str, status: int) -> None:
    web = Asker(OnThisMachine(api(watch("seed-910b1").board)))
    assert web.get("/livez", headers={"host": host}).status_code == status


@pytest.mark.parametrize("name", ["live", "ready", "issues", "history", "cards", "problem"])
def test_the_schema_of_every_answer_is_published(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", name]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["$id"] == f"urn:npudoctor:{name}:1"
    assert said["properties"]["schema"]["default"] == f"npudoctor.{name}/1"
    assert said["additionalProperties"] is False


def test_metrics_of_one_run_go_into_a_file_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "npudoctor.prom"
    assert main(["check", "--simulate", "sick-cards", "--json", "--metrics-file", str(path)]) == 1
    report = report_json.read(capsys.readouterr().out)
    figures = samples(path.read_text(encoding="utf-8"))
    assert figures["npudoctor_check_status", (("check", "npu.health"), ("subject", "npu:2"))] == 2
    assert figures["npudoctor_card_temperature_celsius", (("card", "npu:6"),)] == 86
    assert figures["npudoctor_run_duration_seconds", (("profile", "standard"),)] == report.duration_s
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
    before = path.read_text(encoding="utf-8")
    assert main(["check", "--simulate", "sick-cards", "--metrics-file", str(tmp_path)]) == 2
    assert main(["check", "--simulate", "sick-cards", "--metrics-file", str(tmp_path / "no" / "x.prom")]) == 2
    assert path.read_text(encoding="utf-8") == before
