"""driver.grant-access on simulated nodes: who is added to which group, and to which groups nobody is."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.fixer import plan
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.sdk import GroupMember, Options
from npudoctor.sim import machine, scenario
from npudoctor.steps import Step
from npudoctor.testing import run

CATALOG = plugins.load(folder="")
DEV = {"name": "dev", "uid": 1007, "groups": {"dev": 1007}}


def planned(params: dict[str, str] | None = None, **said: Any) -> FixPlan:
    host = machine.build(scenario.parse({"product": "atlas-800t-a2-910b3", **said}, "test"), "test")
    return plan.make(CATALOG, host, Request("driver.grant-access", params or {}), Options())


def steps(made: FixPlan) -> list[Step]:
    assert made.refused is None
    return [one.step for one in made.steps]


@pytest.fixture(autouse=True)
def _no_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)


def test_a_user_gets_the_group_of_the_device_nodes() -> None:
    made = planned(user=DEV)
    assert steps(made) == [GroupMember("dev", "HwHiAiUser")]
    assert any("at the next login" in note for note in made.notes)
    assert not made.unproved


def test_root_gives_it_to_the_one_who_calls_sudo_or_who_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no user given" in str(planned().refused)
    monkeypatch.setenv("SUDO_USER", "kim")
    assert steps(planned()) == [GroupMember("kim", "HwHiAiUser")]
    made = planned({"user": "dev"})
    assert steps(made) == [GroupMember("dev", "HwHiAiUser")]
    assert "dev" in str(made.unproved)
    monkeypatch.setenv("SUDO_USER", "root")
    assert "no user given" in str(planned().refused)
    assert steps(planned({"user": "lee"}, user=DEV)) == [GroupMember("lee", "HwHiAiUser")]


def test_a_named_group_counts_where_the_one_of_the_nodes_has_no_name() -> None:
    nameless = {"/etc/group": "dev:x:1007:\nnpus:x:77:\n"}
    assert "has no name" in str(planned({"user": "dev"}, files=nameless).refused)
    assert steps(planned({"user": "dev", "group": "npus"}, files=nameless)) == [GroupMember("dev", "npus")]


@pytest.mark.parametrize("params", [{"user": "a b"}, {"user": "-G"}, {"user": "dev", "group": "x,y"}])
def test_what_is_no_name_is_refused(params: dict[str, str]) -> None:
    assert "not a valid user or group name" in str(planned(params).refused)


def test_nobody_gets_a_group_that_grants_more() -> None:
    assert "group docker grants far more" in str(planned({"user": "dev", "group": "docker"}).refused)
    for params, said in (({"user": "dev"}, {}), ({}, {"user": DEV})):
        assert "group root grants far more" in str(planned(params, node_group=0, **said).refused)
    host = machine.build(scenario.parse({"product": "atlas-800t-a2-910b3", "node_group": 0, "user": DEV}, "t"), "t")
    [finding] = [finding for result in run(host, "driver.access").results for finding in result.findings]
    assert finding.fix is None
    assert "do not add dev to it" in str(finding.hint)
    assert "usermod" not in " ".join(finding.commands)
