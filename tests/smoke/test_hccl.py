"""The path of the cards: the real torch_npu with its real ProcessGroupHCCL, on stub CANN libraries."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.models import adapter
from npudoctor.report.smoke import headline
from npudoctor.smoke.events import STAGES, SmokeReport
from tests.fake_cann import build
from tests.fake_cann.target import packages_of
from tests.smoke.conftest import ON_CPU

pytestmark = pytest.mark.torch

Smoke = Callable[..., Any]


@pytest.fixture
def on_cards(smoke: Smoke, request: pytest.FixtureRequest, cann_libraries: Path) -> Smoke:
    """Runs two ranks with hccl; `arithmetic` says whether kernels compute, `fail` which function returns which code,
    `queued` whether torch_npu hands operators to a thread of its own, as it does unless told otherwise."""

    def go(
        *,
        arithmetic: bool = True,
        fail: str = "",
        soc: str = "Ascend910B1",
        queued: bool = False,
        libraries: Path = cann_libraries,
        fresh: bool = False,
        **asked: Any,
    ) -> Any:
        environ = {"LD_LIBRARY_PATH": str(libraries), "FAKE_CANN_FAIL": fail, "FAKE_CANN_SOC": soc}
        environ |= {"PYTHONPATH": ON_CPU, "TASK_QUEUE_ENABLE": str(int(queued))} if arithmetic else {}
        if not fresh:
            asked["python"] = request.getfixturevalue("warm_cards")
        return smoke(environ=environ, fresh=fresh, **{"device": "npu", "cards": (0, 1), "ranks": None, **asked})

    return go


NPU_SMI = """#!/bin/sh
# A table of eight cards; while ranks of this test's run are there, the first two have 2100 MB more in use.
ranks=$(grep -lsaF "XDG_STATE_HOME=$XDG_STATE_HOME" $(grep -lsa NPUDOCTOR_SMOKE_PARENT= /proc/[0-9]*/environ) /dev/null)
used=3305; [ -n "$ranks" ] && used=5405
[ "$1" = info ] && [ $# = 1 ] || exit 1
line=+---------------------------+---------------+----------------------------------------------------+
double=+===========================+===============+====================================================+
echo "+------------------------------------------------------------------------------------------------+"
echo "| npu-smi 25.0.rc1                 Version: 25.0.rc1                                             |"
echo $line
echo "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|"
echo "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |"
echo $double
for card in 0 1 2 3 4 5 6 7; do
    [ $card -lt 2 ] && now=$used || now=3305
    echo "| $card     910B1               | OK            | 92.2        36                0    / 0             |"
    echo "| 0                         | 0000:0$card:00.0  | 0           0    / 0          $now / 65536         |"
    echo $double
done
"""


def test_from_the_command_line_two_cards_train_through_torch_npu_and_hccl(
    torch_python: Path, cann_libraries: Path, tmp_path: Path
) -> None:
    """The whole command on the live host: cards from npu-smi, ranks on the real torch_npu, the report as JSON."""
    (tmp_path / "npu-smi").write_text(NPU_SMI, encoding="utf-8")
    (tmp_path / "npu-smi").chmod(0o755)
    site = tmp_path / "config.toml"
    site.write_text('silence = ["npu.count"]\n', encoding="utf-8")  # no NPU of that table has a device node here
    command = [sys.executable, "-m", "npudoctor", "smoke", "--cards", "0,1", "--steps", "6", "--bandwidth-time", "0.2"]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ASCEND", "HCCL"))},
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "LD_LIBRARY_PATH": str(cann_libraries),
        "PYTHONPATH": ON_CPU,
        "RANK": "7",
        "WORLD_SIZE": "64",
    }
    done = subprocess.run(
        [*command, "--json", "--python", str(torch_python), "--environment", "process", "--config", str(site)],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    report = adapter(SmokeReport).validate_json(done.stdout)
    found = {result.check: result.status.value for result in report.results}
    assert found.pop("smoke.scaling") in ("ok", "warning"), "a busy machine slows one rank"
    assert found == dict.fromkeys([f"smoke.{stage}" for stage in STAGES if stage != "scaling"], "ok")
    assert [(rank.card, rank.device, rank.reached) for rank in report.ranks] == [
        ("npu:0", "npu:0", "memory-seen"),
        ("npu:1", "npu:1", "memory-seen"),
    ]
    assert report.loss == pytest.approx(report.reference_loss, rel=1e-4)
    assert any("the driver released all devices" in note for note in report.notes)
    assert headline(report).startswith("PASS: 2 of 8 NPUs (--cards)")


def test_arithmetic_that_does_nothing_is_caught(on_cards: Smoke) -> None:
    ran = on_cards(arithmetic=False, fresh=True)
    assert list(ran.errors) == ["smoke.collectives"]
    assert "arithmetic on the NPUs has no effect" in ran.errors["smoke.collectives"]


CODES = {
    "aclrtSetDevice=507033": ("launch", "P051", "507033"),
    "aclrtMallocAlign32=207001": ("rendezvous", "P017", "207001: out of memory"),
    "HcclCommInitRootInfoConfig=11": ("rendezvous", "P003", "HCCL 11"),
    "HcclAllReduce=9": ("rendezvous", "P005", "HCCL 9"),
}
"""What is injected; the stage in which it shows, the pitfall that it means, and the code as it is told.

torch_npu's own text of an allocation that failed has no code; CANN's log of the process does.
"""


def test_the_log_of_cann_tells_what_a_queued_operator_does_not(on_cards: Smoke) -> None:
    """torch_npu's queue of operators keeps the code to itself: `PTA call acl api failed` is all that it raises."""
    ran = on_cards(fail="HcclAllReduce=9", queued=True)
    assert list(ran.errors) == ["smoke.rendezvous"]
    assert "error code is 9" not in ran.failed[0].message
    finding = ran.results["smoke.rendezvous"].findings[0]
    assert finding.pitfall == "P005"
    assert any("HCCL 9: timed out" in (one.actual or "") for one in finding.evidence)


@pytest.mark.parametrize("fail", CODES)
def test_a_code_of_cann_becomes_its_cause(on_cards: Smoke, fail: str) -> None:
    stage, pitfall, code = CODES[fail]
    ran = on_cards(fail=fail)
    assert list(ran.errors) == [f"smoke.{stage}"]
    finding = ran.results[f"smoke.{stage}"].findings[0]
    assert finding.pitfall == pitfall
    assert any(code in (one.actual or "") for one in finding.evidence)
    assert any(fail.partition("=")[0] in (one.plog_line or "") for one in ran.failed)


def test_a_rank_that_dies_on_a_card_is_named_with_its_card(on_cards: Smoke) -> None:
    ran = on_cards(fault="rank:1,kind:kill,stage:training")
    assert ran.first == [(1, "training", "signal")]
    finding = ran.results["smoke.training"].findings[0]
    assert (finding.subject, finding.summary) == (
        "npu:1",
        "rank 1 on npu:1 killed by SIGKILL in training",
    )


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(20))
@pytest.mark.parametrize("fail", CODES)
def test_a_code_of_cann_becomes_its_cause_every_time(on_cards: Smoke, fail: str, turn: int) -> None:
    stage, pitfall, _ = CODES[fail]
    ran = on_cards(fail=fail)
    assert list(ran.errors) == [f"smoke.{stage}"]
    assert ran.results[f"smoke.{stage}"].findings[0].pitfall == pitfall


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend310P3"])
def test_other_chips_go_the_same_way(on_cards: Smoke, soc: str) -> None:
    ran = on_cards(soc=soc, fresh=True)
    assert ran.errors == {}
    assert set(ran.outcome.of_all("device").values()) == {soc}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "torch_npu_run", "spawn", "shell"])
def test_launchers_on_cards(on_cards: Smoke, launcher: str) -> None:
    assert on_cards(launcher=launcher, fresh=True).errors == {}


@pytest.mark.slow
def test_eight_cards_train_together(on_cards: Smoke) -> None:
    ran = on_cards(cards=tuple(range(8)))
    assert ran.errors == {}
    assert len(ran.outcome.stages) == 8


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_mixed_precision_on_cards(on_cards: Smoke, dtype: str) -> None:
    assert on_cards(dtype=dtype, fresh=True).errors == {}


@pytest.mark.slow
def test_a_cann_that_is_too_old_is_the_cause(on_cards: Smoke, torch_python: Path, tmp_path: Path) -> None:
    libraries = build.build(packages_of(torch_python), tmp_path / "old", without=["aclrtGetSocName"])
    ran = on_cards(libraries=libraries, fresh=True)
    assert list(ran.errors) == ["smoke.launch"]
    finding = ran.results["smoke.launch"].findings[0]
    assert finding.summary.startswith("all ranks failed in launch")
    assert "libtorch_npu.so: undefined symbol: aclrtGetSocName" in finding.summary
    assert finding.pitfall == "P012"


@pytest.mark.slow
def test_a_torch_npu_that_was_built_for_another_torch_is_the_cause(
    on_cards: Smoke, torch_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library asks for a function that this torch has not: one of torch's names in it is another one."""
    shutil.copytree(packages_of(torch_python) / "torch_npu", tmp_path / "torch_npu", copy_function=link)
    library = tmp_path / "torch_npu/lib/libtorch_npu.so"
    text = library.read_bytes()
    name = re.search(rb"\0_ZN3c1010Dispatcher13realSingletonEv\0", text)
    assert name is not None
    library.unlink()
    library.write_bytes(text.replace(name[0], name[0].replace(b"Ev", b"Ex")))
    monkeypatch.setattr("tests.smoke.test_hccl.ON_CPU", f"{tmp_path}:{ON_CPU}")
    ran = on_cards(fresh=True)
    assert list(ran.errors) == ["smoke.launch"]
    assert "undefined symbol: _ZN3c1010Dispatcher13realSingletonEx" in ran.errors["smoke.launch"]
    assert ran.results["smoke.launch"].findings[0].pitfall == "P002"


def link(source: str, target: str) -> None:
    """A copy that takes no room where that can be had."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
