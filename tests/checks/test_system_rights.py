"""What the person who asks is not shown, as a user would see the finding."""

from __future__ import annotations

from npudoctor import sim
from npudoctor.findings import Result, Severity, Status
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import User
from npudoctor.testing import run, run_check

PERSON = User(name="ada", uid=1000, gid=1000, gids=(1000,), groups=("ada",))
CARD = {"/dev/davinci0": "", "/dev/davinci_manager": ""}


def as_person() -> Result:
    return run_check("system.rights", user=PERSON, files=CARD)


def test_nothing_is_hidden_from_root() -> None:
    assert run_check("system.rights", files=CARD).findings == ()


def test_a_person_is_told_what_root_would_add() -> None:
    result = as_person()
    finding = result.findings[0]
    assert (result.status, finding.severity) == (Status.OK, Severity.INFO)
    assert finding.summary == (
        "ada is not root and cannot see NPU network ports (hccn_tool), the kernel log, the firewall, processes and "
        "sockets of other users"
    )


def test_cards_without_network_ports_want_no_root_for_them() -> None:
    host = sim.simulate("duo-310p")
    host._user = PERSON
    result = next(one for one in run(host, "system.rights").results if one.check == "system.rights")
    assert "hccn_tool" not in result.findings[0].summary


def test_a_machine_that_has_nothing_to_do_with_cards_is_left_alone() -> None:
    report = run(FakeHost(user=PERSON), "system.rights")
    assert report.results[0].findings == ()
