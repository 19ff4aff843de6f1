"""The path of the cards: the real torch_npu with its real ProcessGroupHCCL, on stub CANN libraries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

ON_CPU = str(Path(__file__).parent / "on_cpu")
Smoke = Callable[..., Any]


@pytest.fixture
def on_cards(smoke: Smoke, cann_libraries: Path) -> Smoke:
    """Runs two ranks with hccl; `arithmetic` says whether kernels compute, `fail` which function returns which code."""

    def go(*, arithmetic: bool = True, fail: str = "", soc: str = "Ascend910B1", **asked: Any) -> Any:
        environ = {"LD_LIBRARY_PATH": str(cann_libraries), "FAKE_CANN_FAIL": fail, "FAKE_CANN_SOC": soc}
        environ |= {"PYTHONPATH": ON_CPU} if arithmetic else {}
        return smoke(environ=environ, device="npu", cards=(0, 1), ranks=None, **asked)

    return go


def test_two_cards_train_through_torch_npu_and_hccl(on_cards: Smoke) -> None:
    ran = on_cards()
    assert ran.failed == []
    assert ran.errors == {}
    assert ran.outcome.of_all("device") == {0: "Ascend910B1", 1: "Ascend910B1"}
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-4)
    assert ran.outcome.cards == {0: "npu:0", 1: "npu:1"}
    assert ran.results["smoke.training"].status.value == "ok"


def test_arithmetic_that_does_nothing_is_caught(on_cards: Smoke) -> None:
    ran = on_cards(arithmetic=False)
    assert list(ran.errors) == ["smoke.collectives"]
    assert "arithmetic on the cards does nothing" in ran.errors["smoke.collectives"]


CODES = {
    "aclrtSetDevice=507033": ("launch", "P051", "507033"),
    "aclrtMallocAlign32=207001": ("rendezvous", "P017", "207001"),
    "HcclCommInitRootInfoConfig=11": ("rendezvous", "P003", "HCCL 11"),
    "HcclAllReduce=9": ("rendezvous", "P005", "HCCL 9"),
}
"""What is injected; the stage in which it shows, the pitfall that it means, and the code as it is told."""


@pytest.mark.parametrize("fail", CODES)
def test_a_code_of_cann_becomes_its_cause(on_cards: Smoke, fail: str) -> None:
    stage, pitfall, code = CODES[fail]
    ran = on_cards(fail=fail)
    assert list(ran.errors) == [f"smoke.{stage}"]
    finding = ran.results[f"smoke.{stage}"].findings[0]
    assert finding.pitfall == pitfall
    assert any(code in (one.actual or "") for one in finding.evidence)


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B4", "Ascend910_9391", "Ascend310P3"])
def test_other_chips_go_the_same_way(on_cards: Smoke, soc: str) -> None:
    ran = on_cards(soc=soc)
    assert ran.errors == {}
    assert set(ran.outcome.of_all("device").values()) == {soc}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "torch_npu_run"])
def test_launchers_on_cards(on_cards: Smoke, launcher: str) -> None:
    assert on_cards(launcher=launcher).errors == {}


@pytest.mark.slow
def test_a_rank_that_dies_on_a_card_is_named_with_its_card(on_cards: Smoke) -> None:
    import os

    os.environ["NPUDOCTOR_SMOKE_FAULT"] = "rank:1,kind:kill,stage:training"
    try:
        ran = on_cards()
    finally:
        del os.environ["NPUDOCTOR_SMOKE_FAULT"]
    assert ran.first == [(1, "training", "signal")]
    assert ran.results["smoke.training"].findings[0].subject == "npu:1"
