"""The text report folds many findings of one kind and long lists; -vv prints all."""

from collections.abc import Iterator

import pytest

from npudoctor import plugins
from npudoctor.messages import Message
from npudoctor.report import text
from npudoctor.sdk import Finding, Host, Severity, check
from npudoctor.testing import FakeHost, run


@check("test.many")
def many(_: Host) -> Iterator[Finding]:
    """Many findings of one kind."""
    for number in range(8):
        yield Finding(code="test.many/one", subject=f"npu:{number}", severity=Severity.INFO, summary="chip is unhappy")


def test_findings_of_one_kind_are_folded() -> None:
    report = run(FakeHost(), "test.many", catalog=plugins.Catalog(checks={many.id: many}, probes={}))
    short, long = (text.render(report, verbose=verbose) for verbose in (False, True))
    assert "… and 7 more of this kind: npu:1, npu:2," in short
    assert (short.count("chip is unhappy"), long.count("chip is unhappy")) == (1, 8)


@pytest.mark.parametrize(("count", "end"), [(12, "11"), (13, "9 and 3 more")])
def test_a_long_list_in_a_sentence_is_folded(count: int, end: str) -> None:
    finding = Message("a.b/c", summary="ports {ports}").finding(ports=list(range(count)))
    assert finding.summary.endswith(end)
    assert finding.params["ports"] == list(range(count))
