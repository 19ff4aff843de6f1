"""The daemon mends by itself what the site has named, when the site has said, and only so often."""

import contextlib
from functools import partial
from pathlib import Path

import pytest

from npudoctor import clock, sim
from npudoctor.config import Config, ConfigError, load
from npudoctor.daemon import autofix
from npudoctor.daemon.run_checks import run_checks
from npudoctor.daemon.site import Site
from npudoctor.daemon.store import Change
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.worker import Worker, names_of
from npudoctor.daemon_config import AutoFix, DaemonSettings
from npudoctor.findings import Report
from npudoctor.sdk import Risk

from .conftest import Watch, Watched

PORTS = "hccl.reserve-ports"


def after(watched: Watched, policy: AutoFix, kind: RunKind = RunKind.QUICK, boot: str = "one") -> int:
    """RunKind, let the policy act, and say how many fixes were tried."""
    seen = run_checks(watched.catalog, watched.host, kind, watched.options, Config(), deadline_s=60)
    assert seen.report is not None
    changes = watched.history.take(seen.report)
    return act(watched, seen.report, changes, policy, boot)


def act(watched: Watched, report: Report, changes: list[Change], policy: AutoFix, boot: str) -> int:
    journal = "/var/lib/npudoctor"
    site = Site(config=Config(), options=watched.options, settings=DaemonSettings())
    worker = Worker(watched.catalog, lambda _: contextlib.nullcontext(watched.host))
    apply = partial(worker.fix, site=site, journal=journal)
    return autofix.Fixer(history=watched.history, apply=apply, say=watched.said.append).after(
        report, changes, policy, boot
    )


def kinds(watched: Watched) -> list[str]:
    return [change.kind for change in watched.history.changes(limit=100)]


def test_without_a_policy_nothing_is_changed(watch: Watch) -> None:
    watched = watch("new-node")
    assert after(watched, AutoFix()) == 0
    assert not {"fixed", "fix-failed", "fix-refused"} & set(kinds(watched))
    assert watched.host.read("/proc/sys/net/ipv4/ip_local_reserved_ports").strip() == ""


def test_an_issue_that_appears_is_mended_once_journalled_and_told(watch: Watch) -> None:
    watched = watch("new-node")
    policy = AutoFix(on_issue=(PORTS,))
    assert after(watched, policy) == 1
    assert watched.said[-1].startswith(f"fixed: {PORTS}: applied")
    [told] = [change for change in watched.history.changes(limit=100) if change.kind == "fixed"]
    assert told.said.startswith(f"{PORTS}: applied")
    run = told.said.partition("npudoctor undo ")[2].split()[0]
    assert watched.host.exists(f"/var/lib/npudoctor/runs/{run}/status.json")
    assert watched.host.read("/proc/sys/net/ipv4/ip_local_reserved_ports").strip()
    assert after(watched, policy) == 0
    assert kinds(watched).count("fixed") == 1
    assert [issue for issue in watched.history.issues() if issue.check == "hccl.ports-reserved"] == []


def test_at_boot_it_is_mended_once_a_boot(watch: Watch) -> None:
    watched = watch("new-node")
    policy = AutoFix(at_boot=(PORTS,))
    assert after(watched, policy, RunKind.QUICK) == 0
    assert after(watched, policy, RunKind.STANDARD) == 1
    watched.host = sim.simulate("new-node")
    assert after(watched, policy, RunKind.STANDARD) == 0
    assert after(watched, policy, RunKind.STANDARD, boot="two") == 1


def test_the_limit_of_an_hour_is_kept_across_restarts(watch: Watch) -> None:
    watched = watch("new-node")
    policy = AutoFix(on_issue=(PORTS,), per_hour=2)
    for _ in range(2):
        watched.history.note("fixed", "before the restart")
    assert after(watched, policy) == 0
    assert "fix-refused" in kinds(watched)
    assert watched.host.read("/proc/sys/net/ipv4/ip_local_reserved_ports").strip() == ""
    assert watched.history.count_since(clock.timestamp() - 3600, *autofix.TRIED) == 2


def test_what_is_not_safe_is_never_applied(watch: Watch) -> None:
    watched = watch("new-node")
    pair = watched.catalog.fixes["python.install-pair"]
    assert pair.risk is Risk.ASK
    assert after(watched, AutoFix(at_boot=(pair.id,), on_issue=(pair.id,)), RunKind.STANDARD) == 0
    safe = names_of(watched.catalog).safe
    assert "needs confirmation" in (AutoFix(on_issue=(pair.id,)).mistake(watched.catalog.fixes, safe) or "")
    assert "unknown fix" in (AutoFix(on_issue=("no.such",)).mistake(watched.catalog.fixes, safe) or "")
    assert AutoFix(on_issue=(PORTS,)).mistake(watched.catalog.fixes, safe) is None


WRONG = {
    "[daemon]\nquick = 1": "in [daemon]: unknown key 'quick'; did you mean quick_s?",
    "[daemon]\nquick_s = 0": "in [daemon]: quick_s: input should be greater than or equal to 1, found 0",
    '[daemon]\nlisten = "0.0.0.0:9713"': "in [daemon]: listen: expected a loopback address",
    '[daemon]\nlisten = "[::]:9713"': "in [daemon]: listen: expected a loopback address",
    '[daemon]\nlisten = "node:9713"': "in [daemon]: listen: expected an IP address",
    '[daemon]\nmetrics_listen = "::1:9713"': "in [daemon]: metrics_listen: expected an IPv6 address in brackets",
    '[daemon]\nmetrics_listen = "10.0.0.1:99999"': "in [daemon]: metrics_listen: expected ADDRESS:PORT",
    '[auto_fix]\non_issue = "hccl.reserve-ports"': "in [auto_fix]: on_issue: expected a list",
    "[auto_fix]\nper_hour = 0": "in [auto_fix]: per_hour: input should be greater",
    "daemon = 3": "daemon: expected a table",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_what_is_wrong_in_the_sections_of_the_daemon_everybody_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as problem:
        load(str(path))
    assert said in str(problem.value)


def test_the_sections_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[daemon]\nquick_s = 30\nlisten = "[::1]:9713"\n[auto_fix]\non_issue = ["hccl.reserve-ports"]\n',
        encoding="utf-8",
    )
    config = load(str(path))
    assert (config.for_daemon.quick_s, config.for_daemon.listen) == (30, "[::1]:9713")
    assert config.policy.fixes == ("hccl.reserve-ports",)
