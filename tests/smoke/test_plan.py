"""What a run will do, decided without starting anything: cards, manners, ports, variables, stages."""

from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts.network.ports import Socket, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.smoke import plan
from npudoctor.smoke.events import STAGES
from npudoctor.smoke.plan import Known, Refused, Request
from npudoctor.smoke.session import Session


def known_of(scenario: str) -> Known:
    from npudoctor import plugins

    host = sim.simulate(scenario)
    assert isinstance(host, SimulatedHost)
    return Session(catalog=plugins.load(), host=host, request=Request(), options=Options()).look()


@pytest.fixture(scope="module")
def a2() -> Known:
    return known_of("seed-910b1")


def made(known: Known, **asked: Any) -> plan.Plan:
    return plan.make(Request(**asked), known)


def test_every_idle_card_gets_a_rank_and_its_cpus(a2: Known) -> None:
    planned = made(a2).planned
    assert [(one.rank, one.device, one.card) for one in planned.ranks] == [
        (number, f"npu:{number}", f"npu:{number}") for number in range(8)
    ]
    assert planned.ranks[0].cpus == "144-167"
    assert (planned.backend, planned.family, planned.world_size) == ("hccl", "A2", 8)
    assert list(planned.deadlines_s) == list(STAGES)
    assert "bf16" in made(a2).told["dtypes"]


def test_cards_that_are_named_are_numbered_anew_for_the_ranks(a2: Known) -> None:
    chosen = made(a2, cards=(1, 3))
    assert [(one.device, one.card) for one in chosen.planned.ranks] == [("npu:0", "npu:1"), ("npu:1", "npu:3")]
    assert chosen.environ["ASCEND_RT_VISIBLE_DEVICES"] == "1,3"


def test_cards_at_work_are_left_alone_unless_forced() -> None:
    known = known_of("in-service")
    with pytest.raises(Refused, match="npu:0 held by"):
        made(known)
    forced = made(known, cards=(0, 1), force=True).planned
    assert len(forced.ranks) == 2
    assert any("--force" in note for note in forced.notes)


def test_a_sick_card_is_left_alone_and_said() -> None:
    planned = made(known_of("sick-cards")).planned
    assert [(one.npu, one.cause.value, one.reason, one.check) for one in planned.excluded] == [
        ("npu:2", "unhealthy", "Alarm", "npu.health"),
        ("npu:5", "unhealthy", "dropped off the PCI bus", "npu.count"),
    ]
    assert [one.card for one in planned.ranks] == ["npu:0", "npu:1", "npu:3", "npu:4", "npu:6", "npu:7"]
    assert any(note.startswith("npu:6: 910B3 at 86 °C") for note in planned.notes)


def test_without_a_card_it_is_refused_with_what_to_do() -> None:
    with pytest.raises(Refused, match="--device cpu"):
        made(Known(python="python3", cards=Chips((), "/dev")))


def test_variables_of_a_stale_launcher_are_not_handed_on(a2: Known) -> None:
    stale = {"RANK": "3", "WORLD_SIZE": "16", "MASTER_ADDR": "10.0.0.9", "TORCHELASTIC_RUN_ID": "x", "PATH": "/bin"}
    environ = made(replace(a2, environ=stale)).environ
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"} & set(environ)
    assert environ["PATH"] == "/bin"
    assert environ["HCCL_DETERMINISTIC"] == "true"


def test_beside_a_live_job_other_ports_are_taken(a2: Known) -> None:
    assert "HCCL_IF_BASE_PORT" not in made(replace(a2, sockets=Sockets(()))).environ
    busy = Sockets((Socket(protocol="tcp", address="0.0.0.0", port=60000, status="LISTEN"),))
    chosen = made(replace(a2, sockets=busy))
    assert int(chosen.environ["HCCL_IF_BASE_PORT"]) >= 60032
    assert any("not tested" in note for note in chosen.planned.notes)


def test_the_master_port_is_outside_hccls_range(a2: Known) -> None:
    assert a2.hccl_ports is not None
    assert all(made(a2).master_port not in a2.hccl_ports.possible for _ in range(5))


def test_the_310p_has_no_training_and_no_bf16() -> None:
    known = known_of("duo-310p")
    assert list(made(known).planned.deadlines_s) == ["launch", "rendezvous", "collectives", "memory-seen"]
    with pytest.raises(Refused, match="does not support bf16"):
        made(known, dtype="bf16")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cards": (9,)}, "devices 0 to 7"),
        ({"ranks": 12}, "only 8 devices"),
        ({"nnodes": 2}, "--rdzv-endpoint"),
        ({"nnodes": 2, "rdzv_endpoint": "node1:99999999"}, "--rdzv-endpoint"),
        ({"node_rank": 3}, "--node-rank 3"),
        ({"device": "cpu", "cards": (0,)}, "--ranks N"),
        ({"device": "cpu", "ranks": 100_000}, "memory for"),
        ({"nnodes": 2, "rdzv_endpoint": "node1:29400"}, "--launcher torchrun"),
        ({"strategy": "fsdp", "cards": (0,)}, "two ranks or more"),
        ({"strategy": "zero2", "dtype": "fp16"}, "fp32 only"),
    ],
)
def test_what_cannot_be_done_as_asked_is_refused(a2: Known, asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        made(a2, **asked)


def test_cpu_lists_are_read() -> None:
    assert plan.cpus_of("0-3,8") == [0, 1, 2, 3, 8]
    assert plan.cpus_of("") == []
