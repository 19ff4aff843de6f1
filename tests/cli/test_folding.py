"""The text report folds many findings of one kind and long lists; --verbose prints all."""

import pytest

from npudoctor.messages import Message
from tests.cli.conftest import Command


def test_findings_of_one_kind_are_folded(npudoctor: Command) -> None:
    short = npudoctor("check", "npu.processes", "--simulate", "in-service").out
    assert short.count("chip in use by python3") == 1
    assert "… and 7 more of this kind: npu:1, npu:2," in short
    assert (
        npudoctor("check", "npu.processes", "--simulate", "in-service", "-v").out.count("chip in use by python3") == 8
    )


@pytest.mark.parametrize(("count", "end"), [(12, "11"), (13, "9 and 3 more")])
def test_a_long_list_in_a_sentence_is_folded(count: int, end: str) -> None:
    finding = Message("a.b/c", summary="ports {ports}").finding(ports=list(range(count)))
    assert finding.summary.endswith(end)
    assert finding.params["ports"] == list(range(count))
