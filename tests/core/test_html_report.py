"""The report as a page: whole, and nothing that was seen on a node becomes part of the page's own language."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from npudoctor.cli import main
from npudoctor.findings import Evidence, Finding, HostSummary, Report, Result, Severity, Status, Verdict
from npudoctor.report import html


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def page_about(text: str) -> Reader:
    evidence = (Evidence(source=text, expected=text, actual=text),)
    finding = Finding(
        summary=text, severity=Severity.ERROR, detail=text, hint=text, commands=(text,), evidence=evidence
    )
    result = Result(check="host.swap", title=text, tags=(), status=Status.ERROR, duration_s=0.1, findings=(finding,))
    report = Report(
        tool_version="0",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        host=HostSummary(hostname=text),
        profile="standard",
        verdict=Verdict.ERROR,
        exit_code=1,
        role="full",
        in_service=False,
        environment="process",
        summary={"error": 1},
        results=(result,),
    )
    return Reader(html.render(report))


@given(st.text(min_size=1).filter(str.strip))
def test_what_was_seen_is_text_whatever_it_is(text: str) -> None:
    assert page_about(text).tags == page_about("x").tags


def test_the_page_says_what_is_wrong_and_how_to_mend_it(capsys) -> None:  # type: ignore[no-untyped-def]
    assert main(["check", "hccl.ports-reserved", "--simulate", "new-node", "--format", "html"]) == 0
    page = Reader(capsys.readouterr().out)
    assert "HCCL ports not reserved" in page.text and "npudoctor fix hccl.reserve-ports" in page.text
    assert page.tags[:2] == ["html", "head"] and "script" not in page.tags and "link" not in page.tags
