"""Checks, pitfalls and codes under every name; and that pitfalls and checks know each other."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from npudoctor import knowledge, plugins
from npudoctor.explain import topics
from npudoctor.knowledge.tables.errors import ErrorCode
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.sdk import Check

CATALOG = plugins.load()


def called(topic: topics.Topic) -> str:
    return topic.code if isinstance(topic, ErrorCode) else topic.id


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("hccl.ports-free", Check, "hccl.ports-free"),
        ("P003", Pitfall, "P003"),
        ("p3", Pitfall, "P003"),
        ("EI0006", ErrorCode, "EI0006"),
        ("ei0006", ErrorCode, "EI0006"),
        ("Get_Socket_Timeout(EI0006)", ErrorCode, "EI0006"),
        ("507033", ErrorCode, "507033"),
        ("error code is 507033", ErrorCode, "507033"),
        ("-8005", ErrorCode, "-8005"),
        ("8005", ErrorCode, "-8005"),
        ("0x80E3A203", ErrorCode, "80E3A203"),
        ("ERR02200", ErrorCode, "ERR02200"),
        ("EJ0003", ErrorCode, "EJ0003"),
        ("107001", ErrorCode, "107001"),
        ("hccl 7", ErrorCode, "HCCL 7"),
        ("exit code 137", ErrorCode, "exit code 137"),
        ("Exit Code: 137", ErrorCode, "exit code 137"),
        ("exitcode: -9", ErrorCode, "exit code 137"),
        ("-9", ErrorCode, "exit code 137"),
        ("139", ErrorCode, "exit code 139"),
        ("signal 11", ErrorCode, "exit code 139"),
        ("killed by signal 15", ErrorCode, "exit code 143"),
        ("error 137", ErrorCode, "exit code 137"),
        ("exit status 139", ErrorCode, "exit code 139"),
        ("sigkill", ErrorCode, "exit code 137"),
        ("HCCL_E_UNAVAIL", ErrorCode, "HCCL 7"),
        ("acl_error_rt_device_oom", ErrorCode, "207018"),
    ],
)
def test_a_topic_is_found_by_its_names(name: str, kind: type, found: str) -> None:
    topic = topics.find(name, CATALOG)
    assert isinstance(topic, kind)
    assert called(topic) == found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hccl.port-free", "unknown name 'hccl.port-free'; did you mean hccl.ports-free?"),
        ("EI0099", "unknown code 'EI0099' of HCCL; the line that prints it says more"),
        ("P999", "unknown name 'P999'; did you mean P09"),
        ("EI0006x", "unknown name 'EI0006x'; did you mean EI0006?"),
        ("EZ-9999", "unknown name 'EZ-9999'; did you mean EZ9999?"),
        ("EI006", "unknown name 'EI006'; did you mean EI0006?"),
        ("HCCL_E_UNAVIAL", "unknown name 'HCCL_E_UNAVIAL'; did you mean HCCL_E_UNAVAIL?"),
        ("HCCL_E_TIMEUOT", "unknown name 'HCCL_E_TIMEUOT'; did you mean HCCL_E_TIMEOUT?"),
        ("ej003", "unknown name 'ej003'; did you mean EJ0003"),
        ("", "unknown name ''; see `npudoctor list`"),
        ("env.profil", "unknown name 'env.profil'; did you mean env.profile?"),
        ("fleet.versions", "'fleet.versions' is a finding of `npudoctor fleet check`"),
        ("npu", "'npu' is a group of checks; explain one of them: npu.present, npu.count"),
        ("cann.nnal_settings", "unknown name 'cann.nnal_settings'"),
    ],
)
def test_what_is_unknown_is_told_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(topics.Unknown) as problem:
        topics.find(name, CATALOG)
    assert str(problem.value).startswith(said)


def test_foreseen_by_is_what_the_catalogue_of_checks_says(shared: Path) -> None:
    catalogue: dict[str, set[str]] = defaultdict(set)
    rows = re.findall(
        r"^\| (?:`|\*\*)?([a-z.-]+).*\| ([^|]*) \|$",
        (shared / "design" / "CHECKS.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    for names, pitfalls in rows:
        spread = re.sub(r"P(\d+)–P(\d+)", _between, pitfalls)
        for pitfall in re.findall(r"P\d{3}", spread):
            catalogue[pitfall].add("smoke" if names.startswith("smoke") else names)
    planned = set(re.findall(r"`((?:[a-z]+)\.[a-z-]+)`", (shared / "design" / "CHECKS.md").read_text(encoding="utf-8")))
    for pitfall in knowledge.pitfalls().rows:
        if pitfall.id > "P097":
            continue  # added after that catalogue was written
        told = {"smoke" if id.startswith("smoke.") else id for id in pitfall.foreseen_by}
        assert told == catalogue.get(pitfall.id, set()), pitfall.id
    named = {check for pitfall in knowledge.pitfalls().rows for check in pitfall.foreseen_by}
    assert named <= planned | set(CATALOG.checks)
    assert len(catalogue) > 80


def _between(found: re.Match[str]) -> str:
    return " ".join(f"P{number:03}" for number in range(int(found[1]), int(found[2]) + 1))


def test_only_checks_of_this_installation_are_said_to_foresee() -> None:
    pitfalls = knowledge.pitfalls().rows
    checks = topics.checks_for(pitfalls, CATALOG.checks)
    assert len(checks) > 30
    assert all(check.id in CATALOG.checks for check in checks)
    assert topics.checks_for(pitfalls, {}) == ()


def test_a_check_knows_the_pitfalls_that_it_foresees_and_the_facts_that_it_judges() -> None:
    check = CATALOG.checks["hccl.ports-free"]
    assert [pitfall.id for pitfall in topics.pitfalls_of(check)] == ["P003", "P018"]
    assert "network.sockets" in topics.facts_of(check, CATALOG)


def test_a_code_leads_to_its_pitfalls_the_likelier_first() -> None:
    code = topics.code("EI0006")
    assert code and [pitfall.id for pitfall in topics.pitfalls_of(code)] == ["P005", "P016", "P025"]


def test_commands_can_be_pasted_and_the_rest_is_prose() -> None:
    steps = [step for pitfall in knowledge.pitfalls().rows for step in topics.mended_by(pitfall)]
    commands = [step for step, command in steps if command]
    assert len(commands) > 25
    assert len(commands) < len(steps)
    for command in commands:
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert not re.search(r"<[a-z][^>]*>|X\.Y", command), command
