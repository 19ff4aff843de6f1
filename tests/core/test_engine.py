"""The engine on small catalogues of our own: facts once, causes before symptoms, and a deadline that is kept."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from npudoctor import engine, plugins
from npudoctor.findings import Because, Report, Severity, Silenced, Skip, Status, Verdict
from npudoctor.host import Host
from npudoctor.host.recording.canned import FakeHost
from npudoctor.report import cause
from npudoctor.sdk import Finding, NotApplicable, Options, ParseError, Unavailable, check, probe, probe_on_cards
from npudoctor.selection import Selection, UnknownName, select


@dataclass(frozen=True)
class Cards:
    count: int


@dataclass(frozen=True)
class Driver:
    version: str


@dataclass(frozen=True)
class Slow:
    pass


@dataclass(frozen=True)
class Odd:
    pass


@probe
def cards(host: Host) -> Cards:
    return Cards(int(host.read("/cards")))


@probe
def driver(host: Host, cards: Cards) -> Driver:
    return Driver(f"{host.read('/driver')} for {cards.count}")


@probe
def slow(host: Host) -> Slow:
    threading.Event().wait(600)
    return Slow()


@probe
def odd(host: Host) -> Odd:
    raise RuntimeError("a surprise")


@check("npu.present", tags=("health",))
def present(cards: Cards) -> Iterator[Finding]:
    """There is a card.

    Without one nothing can be trained.
    """
    if not cards.count:
        yield Finding(summary="no card")


@check("npu.even", after=("npu.present",))
def even(cards: Cards) -> Iterator[Finding]:
    """The number of cards is even."""
    if cards.count % 2:
        yield Finding(summary="an odd number of cards", severity=Severity.WARNING)


@check("driver.version", after=("npu.even", "npu.present"))
def version(driver: Driver) -> Iterator[Finding]:
    """The driver says its version."""
    yield Finding(summary=driver.version, severity=Severity.INFO)


@check("driver.optional", profile="full")
def optional(driver: Driver | None) -> Iterator[Finding]:
    """A driver is optional."""
    yield Finding(summary=f"driver {driver}", severity=Severity.INFO)


@check("system.slow", profile="standard")
def waits(slow: Slow) -> Iterator[Finding]:
    """The slow fact is there."""
    yield from ()


@check("system.odd", profile="standard")
def crashes(odd: Odd) -> Iterator[Finding]:
    """The odd fact is there."""
    yield from ()


QUICK = (cards, driver, present, even, version, optional)
CATALOG = plugins.assemble([*QUICK, slow, odd, waits, crashes])


def run(*names: str, files: dict[str, str], catalog: plugins.Catalog = CATALOG, **selection: object) -> Report:
    host = FakeHost(files=files)
    chosen = Selection(names=names, **selection)  # type: ignore[arg-type]
    events = list(engine.run(catalog, host, chosen))
    assert isinstance(events[-1], engine.Done)
    finished = [event.result.check for event in events if isinstance(event, engine.Finished)]
    assert sorted(finished) == sorted(result.check for result in events[-1].report.results)
    return events[-1].report


def statuses(report: Report) -> dict[str, str]:
    return {result.check: result.status.value for result in report.results}


NODE = {"/cards": "8", "/driver": "25.2.0"}


@dataclass(frozen=True)
class Product:
    pass


@dataclass(frozen=True)
class Training:
    pass


@check("python.product", after=("npu.present",))
def computes(product: Product) -> Iterator[Finding]:
    """The cards compute."""
    yield from ()


@check("smoke.launch", after=("npu.present",))
def starts(training: Training) -> Iterator[Finding]:
    """The ranks start."""
    yield from ()


@check("smoke.training", after=("smoke.launch",))
def learns(training: Training) -> Iterator[Finding]:
    """The model learns."""
    yield from ()


@pytest.mark.parametrize(("number", "turns", "status"), [("8", ["begins", "ends"] * 2, "ok"), ("0", [], "skipped")])
def test_what_computes_on_cards_goes_one_by_one_and_only_where_nothing_stands_before_it(
    number: str, turns: list[str], status: str
) -> None:
    seen = []

    def at_work() -> None:
        seen.append("begins")
        time.sleep(0.05)
        seen.append("ends")

    @probe_on_cards
    def product(host: Host) -> Product:
        at_work()
        return Product()

    @probe_on_cards
    def training(host: Host) -> Training:
        at_work()
        return Training()

    catalog = plugins.assemble([*QUICK, product, training, computes, starts, learns])
    names = ("python.product", "smoke.launch", "smoke.training")
    report = run(*names, files={**NODE, "/cards": number}, catalog=catalog)
    assert statuses(report) == dict.fromkeys(names, status)
    assert seen == turns


def test_a_healthy_node_is_ok_and_says_what_it_saw() -> None:
    report = run("npu", "driver", files=NODE)
    assert statuses(report) == {"npu.present": "ok", "npu.even": "ok", "driver.version": "ok"}
    assert report.results[2].findings[0].summary == "25.2.0 for 8"
    assert (report.verdict, report.exit_code) == (Verdict.OK, 0)


def test_a_known_fact_is_not_obtained() -> None:
    catalog = plugins.assemble([cards, present, even])
    *_, done = engine.run(catalog, FakeHost(files={}), Selection(known={Cards: Cards(7)}))
    assert isinstance(done, engine.Done)
    assert statuses(done.report) == {"npu.present": "ok", "npu.even": "warning"}


def test_one_error_blocks_what_depends_on_it_and_is_named_as_the_cause() -> None:
    report = run("npu", "driver", files={**NODE, "/cards": "0"})
    assert statuses(report) == {"npu.present": "error", "npu.even": "skipped", "driver.version": "skipped"}
    assert [result.blocked_by for result in report.results] == [None, "npu.present", "npu.present"]
    assert all(result.skip is Skip.BLOCKED for result in report.results[1:])
    assert report.exit_code == 1


def test_a_warning_blocks_nothing() -> None:
    assert statuses(run("npu", "driver", files={**NODE, "/cards": "7"}))["driver.version"] == "ok"


def test_a_blocker_that_was_not_selected_runs_unseen() -> None:
    report = run("driver.version", files={**NODE, "/cards": "0"})
    assert statuses(report) == {"driver.version": "skipped"}
    assert report.results[0].blocked_by == "npu.present"
    assert report.exit_code == 3, "a check that was named is skipped"


def test_a_failure_that_another_check_reports_is_shown_by_the_finding_of_that_check() -> None:
    @check("a.tool")
    def tool() -> Iterator[Finding]:
        """Tool answers."""
        yield Finding(severity=Severity.WARNING, summary="tool is held by another container")

    @check("a.reader")
    def reader() -> Iterator[Finding]:
        """What the tool prints."""
        raise Unavailable("exit status 1", because=Because.FAILED, reported_by="a.tool")
        yield

    catalog = plugins.assemble([reader, tool])
    *_, done = engine.run(catalog, FakeHost(), Selection())
    assert isinstance(done, engine.Done)
    result = next(result for result in done.report.results if result.check == "a.reader")
    assert (result.reported_by, result.reason) == ("a.tool", "exit status 1")
    shown = cause.primary(done.report)
    assert shown is not None
    assert (shown[0].check, shown[1]) == ("a.tool", "tool is held by another container")
    *_, alone = engine.run(catalog, FakeHost(), Selection(names=("a.reader",)))
    assert isinstance(alone, engine.Done)
    assert cause.primary(alone.report) == (alone.report.results[0], "could not determine: exit status 1")


def test_a_missing_fact_is_skipped_with_its_reason_and_fails_nothing() -> None:
    report = run("npu", files={})
    assert [result.reason for result in report.results] == ["/cards does not exist"] * 2
    assert [result.skip for result in report.results] == [Skip.COULD_NOT_LOOK] * 2
    assert (report.verdict, report.exit_code) == (Verdict.UNDETERMINED, 3), "nothing of what was requested was judged"


def test_an_optional_fact_that_is_missing_is_none() -> None:
    assert run("driver.optional", files={}).results[0].findings[0].summary == "driver None"


def test_a_crash_in_a_probe_is_a_result_and_leaves_the_run_undetermined() -> None:
    report = run("system.odd", "npu.present", files=NODE)
    crashed = report.results[1]
    assert (crashed.status, crashed.reason) == (
        Status.CRASHED,
        "test_engine.odd failed: RuntimeError: a surprise",
    )
    assert crashed.detail and "Traceback" in crashed.detail
    assert (report.verdict, report.exit_code) == (Verdict.UNDETERMINED, 3)


def test_a_finding_is_worse_than_a_crash() -> None:
    assert run("system.odd", "npu.present", files={"/cards": "0"}).exit_code == 1


@pytest.mark.thorough
def test_the_deadline_is_kept_and_what_was_known_by_then_is_reported() -> None:
    began = time.monotonic()
    report = run("system.slow", "npu.present", files=NODE, deadline_s=2)
    assert time.monotonic() - began < 60
    late = report.results[1]
    assert (late.skip, late.because) == (Skip.COULD_NOT_LOOK, Because.TIMED_OUT)
    assert late.reason == "time limit of the run (2 s) reached before it ran"
    assert statuses(report)["npu.present"] == "ok"
    assert report.exit_code == 3


def test_a_check_runs_by_profile_or_by_its_name() -> None:
    quick = Selection(options=Options(profile="quick"))
    assert [check.id for check in select(CATALOG, quick)] == ["npu.present", "npu.even", "driver.version"]
    named = Selection(names=("driver.optional", "health"), options=Options(profile="quick"))
    assert [check.id for check in select(CATALOG, named)] == ["npu.present", "driver.optional"]
    without = Selection(names=("npu",), skip=("health",))
    assert [check.id for check in select(CATALOG, without)] == ["npu.even"]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown check or tag 'npu.presnet'; did you mean npu.present"):
        engine.run(CATALOG, FakeHost(), Selection(names=("npu.presnet",)))


def test_the_site_raises_lowers_and_silences() -> None:
    severities = {"npu.even": Severity.ERROR}
    report = run("npu", files={**NODE, "/cards": "7"}, severities=severities)
    assert statuses(report) == {"npu.present": "ok", "npu.even": "error"}
    silenced = run("npu", files={**NODE, "/cards": "7"}, severities=severities, silenced={"npu.even": Silenced()})
    assert statuses(silenced) == {"npu.present": "ok", "npu.even": "silenced"}
    assert (silenced.summary["silenced"], silenced.exit_code, silenced.verdict) == (1, 0, Verdict.OK)


def test_a_silenced_cause_still_blocks_its_consequences() -> None:
    @check("system.cause")
    def cause(options: Options) -> Iterator[Finding]:
        """There is no cause."""
        yield Finding(summary="the cause")

    @check("system.effect", after=("system.cause",))
    def effect(options: Options) -> Iterator[Finding]:
        """There is no effect."""
        yield Finding(summary="the effect")

    catalog = plugins.assemble([cause, effect])
    for said in (
        {"silenced": {"system": Silenced(reason="known")}},
        {"silenced": {"system.cause": Silenced()}},
        {"severities": {"system.cause": Severity.INFO}},
    ):
        report = run(files={}, catalog=catalog, **said)
        first, second = report.results
        assert first.findings[0].summary == "the cause"
        assert (second.status, second.blocked_by) == (Status.SKIPPED, "system.cause")
        assert report.exit_code == 0


def test_a_severity_of_the_site_makes_no_information_worse() -> None:
    @check("system.told")
    def told(options: Options) -> Iterator[Finding]:
        """Nothing is worth telling."""
        yield Finding(summary="by the way", severity=Severity.INFO)

    report = run(files={}, catalog=plugins.assemble([told]), severities={"system.told": Severity.WARNING})
    assert report.results[0].status is Status.OK


@pytest.mark.thorough
def test_results_come_in_the_order_of_the_catalogue() -> None:
    order = [result.check for result in run(files=NODE, deadline_s=2).results]
    assert order == [id for id in CATALOG.checks if id != "driver.optional"]


def judged_with(problem: Exception, *, before: bool = False) -> Report:
    @check("system.raises")
    def raises(host_fact: Options) -> Iterator[Finding]:
        """It does not raise."""
        if before:
            yield Finding(summary="seen before")
        raise problem

    return run(files={}, catalog=plugins.assemble([raises]))


def test_a_check_that_finds_itself_not_applicable_says_so() -> None:
    assert judged_with(NotApplicable("no container")).results[0].skip is Skip.NOT_APPLICABLE


def test_what_a_check_had_found_before_it_lost_its_fact_is_kept() -> None:
    result = judged_with(Unavailable("the rest is unknown"), before=True).results[0]
    assert (result.status, result.reason) == (Status.ERROR, "the rest is unknown")


def test_a_check_that_crashes_is_a_result() -> None:
    result = judged_with(KeyError("x"), before=True).results[0]
    assert (result.status, len(result.findings)) == (Status.CRASHED, 1)


def test_a_fix_that_is_not_installed_is_not_offered() -> None:
    @check("system.offers")
    def offers(given: Options) -> Iterator[Finding]:
        """Nothing is offered."""
        yield Finding(summary="x", fix="no.such-fix")

    assert run(files={}, catalog=plugins.assemble([offers])).results[0].findings[0].fix is None


def test_text_that_a_parser_does_not_understand_is_a_failing_tool() -> None:
    @dataclass(frozen=True)
    class Table:
        pass

    @probe
    def table(host: Host) -> Table:
        raise ParseError("no table", line_number=3, line="???")

    globals()["Table"] = Table

    @check("npu.table")
    def needs(table: Table) -> Iterator[Finding]:
        """The table is there."""
        yield from ()

    report = run(files={}, catalog=plugins.assemble([table, needs]))
    assert report.results[0].because is Because.FAILED
    assert report.results[0].reason == "test_engine.table was not understood: no table (line 3: '???')"
    assert report.exit_code == 3


def test_two_checks_of_one_id_and_checks_that_wait_for_each_other_are_reported() -> None:
    @check("npu.present")
    def again(cards: Cards) -> Iterator[Finding]:
        """It is there twice."""
        yield from ()

    @check("npu.first", after=("npu.second",))
    def first(cards: Cards) -> Iterator[Finding]:
        """First."""
        yield from ()

    @check("npu.second", after=("npu.first",))
    def second(cards: Cards) -> Iterator[Finding]:
        """Second."""
        yield from ()

    twice = plugins.assemble([cards, present, again])
    assert twice.broken[0].reason == (
        f"the check npu.present is defined twice; {again.function.__module__}.again is ignored"
    )
    circular = run(files=NODE, catalog=plugins.assemble([cards, first, second]))
    assert all("wait for each other" in (result.reason or "") for result in circular.results)
    assert circular.exit_code == 3


def test_a_reason_has_the_kind_of_the_tool_that_failed() -> None:
    @probe
    def hangs(host: Host) -> Driver:
        raise Unavailable("the tool did not answer", because=Because.TIMED_OUT)

    @check("driver.judged")
    def judged(driver: Driver | None) -> Iterator[Finding]:
        """Driver judged."""
        if driver is None:
            raise Unavailable("nothing to judge")
        yield Finding(summary="unused")

    @check("driver.reasoned")
    def reasoned(driver: Driver | Unavailable) -> Iterator[Finding]:
        """Driver judged with the reason."""
        if isinstance(driver, Unavailable):
            raise driver
        yield Finding(summary="unused")

    catalog = plugins.assemble([hangs, judged, reasoned])
    done = list(engine.run(catalog, FakeHost(), Selection()))[-1]
    assert isinstance(done, engine.Done)
    assert [result.because for result in done.report.results] == [Because.TIMED_OUT] * 2
    assert done.report.exit_code == 3
