"""`npudoctor fleet` as a user types it: a cluster of simulated nodes from the question to the lists."""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from junitparser import JUnitXml

from npudoctor.cli import main
from npudoctor.facts.network import rank_table
from npudoctor.fleet import gather, line
from npudoctor.fleet.digest import Digest
from npudoctor.fleet.merge import Fleet, Reader
from npudoctor.fleet.outcomes import Outcome
from npudoctor.fleet.store import Run
from npudoctor.fleet.verdict import FleetReport, judge_fleet
from npudoctor.models import adapter
from npudoctor.records import replace
from npudoctor.selection import Selection
from tests.security.served import wait_for


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["fleet", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    folder = str(tmp_path / "a cluster")
    code, _, err = said(capsys, "sim", "40", folder, "--faults", "drift=2,dead=2,dup-ip=2,sick=1")
    assert code == 0 and "drift: " in err
    return folder


def test_simulated_nodes_are_asked_as_processes_and_merged_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    words = ("check", "-w", "n[1-2]", "--simulate", "bare-host", "--run", run)
    code, first, err = said(capsys, *words)
    assert "2 of 2 nodes answered" in first and "by local" in err
    assert said(capsys, "merge", run)[:2] == (code, first)
    assert json.loads(Path(run, "fleet.json").read_text(encoding="utf-8"))["schema"] == "npudoctor.fleet/1"
    assert said(capsys, "check", "--run", run, "--simulate", "bare-host")[1] == first
    code, _, err = said(capsys, *words[:2], "n[1-3]", *words[3:])
    assert code == 2 and "choose a new folder" in err


def test_a_page_names_what_is_wrong_and_the_next_step(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, page, _ = said(capsys, "merge", cluster)
    assert code == 1
    assert page.startswith("✖ 38 of 40 nodes answered")
    version = "driver version: 24.1.0 (newer) on 2 nodes"
    for words in (version, "is used 2 times", "NPU 2 reports Alarm", "Not answered: "):
        assert words in " ".join(page.split())
    lines = page.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("  $ "))
    assert lines[-1] == f"  $ npudoctor fleet merge {shlex.quote(cluster)}"
    assert not [line for line in lines if line != line.rstrip()]


def test_json_junit_and_markdown_hold_the_same_findings(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = said(capsys, "merge", cluster, "--json")
    report = adapter(FleetReport).validate_json(text)
    assert (code, report.exit_code, report.answered, report.expected) == (1, 1, 38, 40)
    failing = {result.check for result in report.report.results if result.status.value == "error"}
    assert failing == {"fleet.versions", "fleet.card-addresses", "npu.health"}
    suites = JUnitXml.fromstring(said(capsys, "merge", cluster, "--format", "junit")[1].encode())
    assert {case.name for suite in suites for case in suite if case.result} >= failing
    markdown = said(capsys, "merge", cluster, "--format", "markdown")[1]
    assert all(check in markdown for check in failing)


def test_the_html_page_loads_nothing_and_escapes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    main(["node", "--simulate", "sick-cards", "--name", "<script>x</script>", "--to", str(folder)])
    capsys.readouterr()
    html = said(capsys, "check", "--drop", str(folder), "--format", "html")[1]
    tags: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append((tag, dict(attrs)))  # type: ignore[method-assign]
    parser.feed(html)
    assert {"h1", "details", "table"} <= {tag for tag, _ in tags}
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags}
    assert not any(name in ("src", "href") for _, attrs in tags for name in attrs)


def test_lists_are_read_by_others(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = said(capsys, "lists", cluster, "nodelist")[1].split()
    assert len(good) == 40 - 2 - 2 - 2 - 1
    assert said(capsys, "lists", cluster, "hostfile")[1].splitlines() == [f"{name} slots=8" for name in good]
    assert said(capsys, "lists", cluster, "machinefile")[1].splitlines() == [f"{name}:8" for name in good]
    table = rank_table.parse(said(capsys, "lists", cluster, "rank-table")[1])
    assert table.ranks == tuple(range(8 * len(good)))
    _, exclude, named = said(capsys, "lists", cluster, "slurm-exclude")
    assert "npudoctor: not to be used: " in named and "(no answer (" in named and "(fleet.versions)" in named
    assert exclude.startswith("--exclude=") and not any(name in exclude.split("[") for name in good)
    drain = said(capsys, "lists", cluster, "slurm-drain")[1]
    assert all("State=DRAIN" in line and "npudoctor-fleet " in line for line in drain.splitlines())
    assert "kubectl taint nodes" in said(capsys, "lists", cluster, "k8s-taints")[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            "hostfile",
            ("mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", "{ssh}", "--hostfile", "{list}"),
        ),
        ("machinefile", ("mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", "{ssh}", "-f", "{list}")),
    ],
)
def test_an_mpirun_starts_a_rank_for_each_npu_of_the_listed_nodes(
    made: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    _, _, planted = said(capsys, "sim", "4", str(tmp_path / "run"), "--faults", "sick=1")
    (tmp_path / "list").write_text(said(capsys, "lists", str(tmp_path / "run"), made)[1], encoding="utf-8")
    # The nodes are this machine. Each has a temporary folder of its own: Open MPI's daemon first deletes what an
    # earlier run left in its session folder, so that of two daemons with one folder each could delete the other's.
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexport NODE="$1"; shift\n'
        f'export TMPDIR="{tmp_path}/$NODE"; mkdir -p "$TMPDIR"; exec sh -c "$*"\n'
    )
    ssh.chmod(0o755)
    argv = [word.format(ssh=ssh, list=tmp_path / "list") for word in words]
    done = subprocess.run([*argv, "sh", "-c", 'echo "on $NODE"'], capture_output=True, encoding="utf-8", check=True)
    good = [name for name in ("r01n0001", "r01n0002", "r01n0003", "r01n0004") if name not in planted]
    assert sorted(re.findall(r"^on (\S+)$", done.stdout, re.MULTILINE)) == sorted(good * 8)


def test_a_golden_node_and_a_baseline_are_options(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "baseline.toml"
    baseline.write_text(
        'driver = { from = "24.1.rc1", to = "24.1.0" }\n[groups."910B1"]\n"driver package" = 1\n', encoding="utf-8"
    )
    assert said(capsys, "merge", cluster, "--baseline", str(baseline))[0] == 2
    versions = '{ from = "24.1.rc1", to = "24.1.0" }'
    baseline.write_text(f'driver = {versions}\n"driver package" = {versions}\n', encoding="utf-8")
    page = said(capsys, "merge", cluster, "--baseline", str(baseline))[1]
    assert "Upgrade of 910B1 (aarch64): 2 of 38 nodes done" in page and "driver version: " not in page
    assert said(capsys, "merge", cluster, "--golden", "nothing")[0] == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["check"], "no nodes named"),
        (["check", "-w", "n[1-"], "missing"),
        (["check", "-w", "n1", "--sudo"], "absolute path"),
        (["check", "-w", "n1", "--engine", "local"], "--simulate"),
        (["check", "-w", "n1", "--simulate", "healthy-b3"], "did you mean healthy-a3?"),
        (["check", "-w", "n1", "--simulate", "healthy-a3", "--engine", "clustershell"], "leave out --engine"),
        (["check", "--hostfile", "/none"], "/none"),
        (["merge", "/none"], "does not exist"),
        (["sim", "0", "/tmp/x"], "expected a number"),
        (["sim", "4", "/tmp/x", "--faults", "frogs=1"], "known are"),
        (
            ["sim", "4", "/none/x", "--simulate", "bare-host", "--faults", "hot=1"],
            "bare-host: no part that the fault hot",
        ),
        (
            ["sim", "4", "/none/x", "--simulate", "duo-310p", "--faults", "fec=1"],
            "duo-310p: no part that the fault fec",
        ),
    ],
)
def test_a_mistake_is_one_line(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, *words)
    assert (code, out) == (2, "")
    assert reason in err and err.count("\n") == 1


def test_an_empty_folder_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "merge", str(tmp_path))
    assert code == 2 and "no answers" in err


def test_the_script_is_one_command_whose_line_is_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, command, _ = said(capsys, "script", "--timeout", "60")
    assert code == 0 and command.count("\n") == 1
    assert command.startswith("timeout -k 5 60 npudoctor node --line")
    main(["node", "--line", "--simulate", "bare-host", "--name", "far"])
    file = tmp_path / "carried.txt"
    file.write_text(f"$ {command}\n{capsys.readouterr().out}\n$ exit\n", encoding="utf-8")
    assert "1 of 1 node answered" in said(capsys, "merge", str(file))[1]


def test_changes_against_an_earlier_run_are_named(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    healthy = str(tmp_path / "healthy")
    said(capsys, "sim", "40", healthy)
    said(capsys, "merge", healthy)
    said(capsys, "merge", cluster)
    page = said(capsys, "merge", cluster, "--against", healthy)[1]
    assert "new       driver version: 24.1.0 (newer) on 2" in page and "  gone " not in page
    page = said(capsys, "merge", healthy, "--against", cluster)[1]
    assert "gone      driver version: 24.1.0 (newer) on 2" in page and "  new " not in page
    assert "No changes since" in said(capsys, "merge", healthy, "--against", healthy)[1]
    assert said(capsys, "merge", healthy, "--against", str(tmp_path))[0] == 2


def test_fixes_are_planned_by_node_and_none_is_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("n1", "n2"):
        main(["node", "--simulate", "new-node", "--name", name, "--to", str(tmp_path)])
    capsys.readouterr()
    text = said(capsys, "fix", str(tmp_path))[1]
    assert "hccl.reserve-ports  on n[1-2]" in text and "scope: group" in text
    digest = gather.answer_of([str(tmp_path)], "n2")
    assert digest is not None
    cured = replace(digest.report, results=())
    (tmp_path / "n2.json.gz").write_bytes(line.pack(replace(digest, report=cured)))
    text = said(capsys, "fix", str(tmp_path))[1]
    assert "hccl.reserve-ports  on n1\n" in text and "python.install-pair  on n[1-2]\n" in text
    main(["node", "--simulate", "new-node", "--name", "n2", "--to", str(tmp_path)])
    capsys.readouterr()
    shell = said(capsys, "fix", str(tmp_path), "hccl.reserve-ports", "--as", "shell")[1].splitlines()
    assert shell[1:] == [f"ssh {name} 'npudoctor fix hccl.reserve-ports --dry-run'" for name in ("n1", "n2")]
    (play,) = yaml.safe_load(said(capsys, "fix", str(tmp_path), "hccl.reserve-ports", "--as", "ansible")[1])
    assert play["hosts"] == "n1,n2" and play["tasks"][0]["command"].endswith("--dry-run")
    assert said(capsys, "fix", str(tmp_path), "npu.release")[1] == "No finding offers npu.release.\n"
    code, _, err = said(capsys, "fix", str(tmp_path), "npu.relase")
    assert code == 2 and "unknown fix 'npu.relase'; did you mean npu.release?" in err
    assert said(capsys, "fix", str(tmp_path), "npu.release", "--as", "shell")[1].startswith("# ")


def test_the_demo_shows_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--fleet"]) == 1
    page = capsys.readouterr().out
    assert page.startswith("✖ 62 of 64 nodes answered") and "cause     Switch leaf-1-0 " in page


def test_ssh_without_clustershell_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['ClusterShell'] = None\n"
        "from npudoctor.cli import main\n"
        f"sys.exit(main(['fleet', 'check', '-w', 'n1', '--engine', 'clustershell', '--run', {str(tmp_path / 'r')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, "npudoctor[fleet]" in done.stderr) == (2, True)


def test_the_site_s_configuration_holds_across_nodes(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "site.toml"
    words = ("merge", cluster, "--config", str(config), "--json")
    config.write_text(
        'silence = ["fleet.card-addresses", "npu.health"]\n[severity]\n"fleet.versions" = "warning"\n', encoding="utf-8"
    )
    config.chmod(0o644)
    code, text, err = said(capsys, *words)
    report = adapter(FleetReport).validate_json(text)
    status = {result.check: result.status.value for result in report.report.results}
    assert (code, err) == (3, "")  # two nodes did not answer
    assert status["fleet.card-addresses"] == status["npu.health"] == "silenced"
    assert status["fleet.versions"] == "warning"
    config.write_text("[thresholds]\nfleet_clock_sprad_s = 5\n", encoding="utf-8")
    code, _, err = said(capsys, *words)
    assert code == 2 and "did you mean fleet_clock_spread_s?" in err
    config.write_text("[thresholds]\nfleet_clock_spread_s = 5\n", encoding="utf-8")
    assert main(["list", "--config", str(config)]) == 0
    assert main(["check", "system.clock", "--simulate", "bare-host", "--config", str(config)]) in (0, 1, 3)
    assert "unknown" not in capsys.readouterr().err


def test_a_drop_folder_that_does_not_exist_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "check", "--drop", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_an_empty_drop_folder_is_no_healthy_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "check", "--drop", str(tmp_path))[0] == 3
    assert said(capsys, "check", "--drop", str(tmp_path), "-w", "n[1-2]", "--allow-missing", "2")[0] == 3


def test_copies_of_a_simulated_node_have_addresses_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("check", "-w", "n[1-3]", "--simulate", "healthy-a3", "--profile", "quick", "--run", str(tmp_path / "run"))
    report = adapter(FleetReport).validate_json(said(capsys, *words, "--json")[1])
    codes = {finding.code for result in report.report.results for finding in result.open_findings}
    assert not {
        code for code in codes if code and code.startswith(("fleet.answered/", "fleet.card-", "fleet.super-pod"))
    }


def test_a_node_on_hold_is_named_and_left_out_of_what_changes_nodes(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet, _ = gather.stored_fleet([cluster])
    sick = next(one for one in fleet.members if one.unhealthy)
    digest = gather.answer_of([cluster], sick.name)
    assert digest is not None
    identity = replace(digest.identity, hold="alice: cables (/etc/npudoctor/hold)")
    changed = line.pack(replace(digest, identity=identity))
    Run(cluster).keep(Outcome(node=sick.name, kind="answered"), changed)
    assert "1 node on hold: alice: cables" in " ".join(said(capsys, "merge", cluster, "--verbose")[1].split())
    ignored = replace(digest.identity, hold_ignored="/run/npudoctor/hold does not count as a hold")
    other = replace(digest, identity=ignored)
    assert verdict_of(other)[0] == "1 node is not on hold: /run/npudoctor/hold does not count as a hold"
    for kind in ("slurm-drain", "k8s-taints"):
        assert sick.name not in said(capsys, "lists", cluster, kind)[1]
    assert sick.name not in said(capsys, "lists", cluster, "nodelist")[1]


def test_a_run_with_pseudonyms_tells_the_same_and_names_no_node(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = adapter(FleetReport).validate_json(said(capsys, "merge", cluster, "--json")[1])
    fleet, _ = gather.stored_fleet([cluster])
    first = fleet.members[0]
    digest = gather.answer_of([cluster], first.name)
    assert digest is not None and first.identity.machine_id
    held = replace(digest.identity, hold="alice: cables (/etc/npudoctor/hold)", user="mallory")
    Run(cluster).keep(Outcome(node=first.name, kind="answered"), line.pack(replace(digest, identity=held)))
    Run(cluster).keep(Outcome(node=fleet.names[-1], kind="scheduler", detail="down: x (by bobby, since 1)"), None)
    folder = tmp_path / "redacted"
    code, text, err = said(capsys, "merge", cluster, "--redact", str(folder), "--json")
    after = adapter(FleetReport).validate_json(text)
    assert "read it before sending" in err and code == before.exit_code
    names = [row.name for row in after.nodes]
    assert names == [f"host-{number:02}" for number in range(1, 41)]
    kept = [gzip.decompress(path.read_bytes()).decode() for path in (folder / "nodes").iterdir()]
    kept += [path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()]
    hidden = [*fleet.names, "alice", "mallory", "bobby", first.identity.machine_id]
    hidden += [npu.address for npu in first.identity.npus.values() if npu.address] + list(first.identity.addresses)
    for word in hidden:
        assert not [text for text in kept if re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", text)], word
    codes = [
        {one.code: len(one.params.get("nodes", ())) for result in report.report.results for one in result.findings}
        for report in (before, after)
    ]
    odd = {"fleet.answered/hold", "fleet.answered/scheduler", "fleet.answered/missing"}
    assert {k: v for k, v in codes[0].items() if k not in odd} == {k: v for k, v in codes[1].items() if k not in odd}
    code, _, err = said(capsys, "merge", cluster, "--redact", str(folder))
    assert code == 2 and "must be a new or empty folder" in err


def test_an_answer_that_is_damaged_where_a_merge_does_not_read_is_left_out_of_the_redacted_run(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = gather.stored_fleet([cluster])[0].members[0].name
    content = Run(cluster).content(name)
    assert content is not None
    told = json.loads(gzip.decompress(content))
    next(one for one in told["report"]["results"] if not one.get("findings"))["tags"] = -1
    Run(cluster).keep(Outcome(node=name, kind="answered"), gzip.compress(json.dumps(told).encode()))
    folder = tmp_path / "redacted"
    code, text, _ = said(capsys, "merge", cluster, "--redact", str(folder), "--json")
    assert code in (1, 3)
    outcomes = [row.outcome for row in adapter(FleetReport).validate_json(text).nodes]
    assert outcomes.count("garbled") == 1
    assert name not in {path.name for path in (folder / "nodes").iterdir()}


def verdict_of(digest: Digest) -> list[str]:
    fleet = Fleet(
        names=(digest.name,),
        outcomes={digest.name: Outcome(node=digest.name, kind="answered")},
        members=(Reader().member(digest.name, digest, Outcome(node=digest.name, kind="answered")),),
    )
    results = judge_fleet(fleet, Selection()).report.results
    return [finding.summary for result in results for finding in result.findings if result.check == "fleet.answered"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_root_reads_no_answer_that_another_user_could_have_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drop = tmp_path / "drop"
    drop.mkdir(mode=0o755)
    for name in ("n1", "n2"):
        main(["node", "--simulate", "bare-host", "--name", name, "--to", str(drop)])
    os.chown(drop / "n2.json.gz", 1000, 1000)
    rows = json.loads(said(capsys, "check", "--drop", str(drop), "--json")[1])["nodes"]
    assert {row["name"]: row["outcome"] for row in rows} == {"n1": "answered", "n2": "untrusted"}
    for owner, mode in ((1000, 0o755), (0, 0o777)):
        os.chown(drop, owner, owner)
        drop.chmod(mode)
        for words in (["check", "--drop", str(drop)], ["merge", str(drop)], ["check", "--run", str(drop)]):
            code, out, err = said(capsys, *words)
            assert (code, out) == (2, "") and "is refused as root" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_plain_user_is_told_whose_answers_are_not_his(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, owner in (("n1", 0), ("n2", 24242), ("n3", 24343)):
        main(["node", "--simulate", "bare-host", "--name", name, "--to", str(tmp_path)])
        os.chown(tmp_path / f"{name}.json.gz", owner, owner)
    monkeypatch.setattr(os, "geteuid", lambda: 24242)
    page = said(capsys, "check", "--drop", str(tmp_path), "--format", "markdown")[1]
    assert "1 answer from files of another user: uid 24343" in page and "24242" not in page


def test_a_run_that_is_resumed_has_the_engine_and_options_of_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    said(capsys, "check", "-w", "n1", "--simulate", "bare-host", "--profile", "quick", "--run", run)
    Path(run, "outcomes.jsonl").write_text("", encoding="utf-8")
    code, out, err = said(capsys, "check", "--run", run, "--json")
    assert code == 1 and json.loads(out)["answered"] == 1 and "1 node by local" in err
    kept = json.loads(Path(run, "asked.json").read_text(encoding="utf-8"))
    assert kept == {"engine": "local", "simulate": "bare-host", "profile": "quick"}
    assert "leave out --engine" in said(capsys, "check", "--run", run, "--engine", "clustershell")[2]
    Path(run, "asked.json").write_text('{"engine": "local", "timeout": "x", "fanout": []}', encoding="utf-8")
    assert "add --simulate" in said(capsys, "check", "--run", run)[2]


def test_a_run_that_was_killed_is_resumed_and_asks_only_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ["check", "-w", "n[1-5]", "--simulate", "bare-host", "--profile", "quick", "--fanout", "1"]
    argv = [sys.executable, "-c", "from npudoctor.cli import console; console()", "fleet", *words, "--run", str(run)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as head:
        wait_for(lambda: Run(str(run)).outcomes() or head.poll() is not None)
        head.kill()
    before = list(Run(str(run)).outcomes())
    assert before and said(capsys, "merge", str(run))[1]
    assert "5 of 5 nodes answered" in said(capsys, "check", "--run", str(run))[1]
    rows = [json.loads(row)["node"] for row in (run / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(rows) == sorted(set(rows)) and rows[: len(before)] == before


def test_a_folder_without_answers_is_not_a_number_of_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "check", "--drop", str(tmp_path))
    assert code == 3 and "No answers found, and no nodes named" in out and "0 of 0" not in out
    assert "Nothing was compared." in out


def test_the_demo_has_the_formats_of_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--fleet", "--json"]) == 1
    assert adapter(FleetReport).validate_json(capsys.readouterr().out).expected == 64
    assert main(["demo", "--fleet", "--profile", "quick"]) == 2
    assert "leave out --profile" in capsys.readouterr().err
    assert main(["explain", "fleet.versions"]) == 0
    assert "fleet.versions" in capsys.readouterr().out
    assert main(["tui", "--fleet", "/tmp", "--screen", "npus"]) == 2
