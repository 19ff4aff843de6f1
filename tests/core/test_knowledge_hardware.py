"""Chip families and their traps, error codes, and the pitfalls that symptoms lead to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import knowledge
from npudoctor.explain.code_forms import codes_in
from npudoctor.knowledge.tables.errors import ErrorCode, spelled_in
from npudoctor.knowledge.tables.hardware import bare_name


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("910A", "910"),
        ("910ProB", "910"),
        ("Ascend910PremiumA", "910"),
        ("Ascend 910A", "910"),
        ("910B", "910"),
        ("Ascend910B", "910"),
        ("910B3", "A2"),
        ("910B2C", "A2"),
        ("910B4-1", "A2"),
        ("Ascend910B1", "A2"),
        ("Ascend910", "A3"),
        ("Ascend910_9391", "A3"),
        ("910_9372", "A3"),
        ("310P3", "310P"),
        ("310", "310"),
        ("310B4", "310B"),
        ("Ascend950PR", "950"),
        ("Ascend950PR_9579", "950"),
        ("xxx", None),
        ("", None),
        ("Mcu", None),
    ],
)
def test_a_chip_s_name_names_its_family(name: str, family: str | None) -> None:
    found = knowledge.hardware().family_by_name(name)
    assert (found.id if found else None) == family


def test_a_910b_without_a_digit_is_told_by_its_memory() -> None:
    hardware = knowledge.hardware()
    first = hardware.family_by_name("910B", hbm_total_mb=32768, memory_total_mb=15039)
    second = hardware.family_by_name("910B", hbm_total_mb=65536, memory_total_mb=0)
    assert first and second
    assert (first.id, second.id) == ("910", "A2")


def test_every_soc_name_is_of_its_own_family() -> None:
    hardware = knowledge.hardware()
    for family in hardware.families:
        for soc in family.soc_names:
            found = hardware.family_by_name(soc.replace("*", "9579"))
            assert found is family, soc


def test_pci_ids_name_family_and_board() -> None:
    hardware = knowledge.hardware()
    assert (hardware.pci_vendor, len({each.device for each in hardware.pci})) == ("0x19e5", 8)
    a2 = hardware.family_by_pci("0xD802", "0x19E5")
    assert a2 and a2.id == "A2"
    assert hardware.family_by_pci("d802", "10de") is None
    assert hardware.family_by_pci("0x1822", "0x19e5") is None, "a network card of the same vendor"
    assert hardware.board("0xd500", "0x0110") == "Atlas 300I Duo"
    assert hardware.board("0xd802", "0x3402") == "800T A2 / 900 A2 class"
    assert hardware.board("0xd100", "0x0001") == "Atlas 300I 3000/3010"
    assert hardware.board("0xd802", "0x9999") is None


def expected(family: str, chips: int, one: int, other: int, subsystem: str | None = None) -> tuple[str, ...] | None:
    plan = knowledge.hardware().link_plan(family, chips, subsystem)
    return plan.expected_links(one, other) if plan else None


def test_expected_links_are_those_of_the_product() -> None:
    assert expected("910", 8, 0, 3) == ("HCCS",)
    assert "HCCS" not in (expected("910", 8, 3, 4) or ("HCCS",))
    assert all(expected("A2", 8, one, other) == ("HCCS",) for one in range(8) for other in range(8) if one != other)
    assert expected("A2", 16, 0, 7) == ("HCCS",)
    assert "PIX" in (expected("A2", 16, 7, 8) or ())
    assert expected("A3", 16, 12, 13) == ("SIO",)
    assert expected("A3", 16, 13, 14) == ("HCCS_SW", "HCCS")
    assert expected("A3", 2, 12, 13) == ("SIO",), "a container with one package"
    assert expected("310P", 2, 0, 1) is None
    assert expected("950", 8, 0, 1) is None
    assert expected("310", 4, 0, 1) is None


def test_an_unknown_board_has_no_expected_links() -> None:
    assert expected("A2", 4, 0, 1) is None
    assert expected("A2", 4, 0, 1, "0x3000") == ("HCCS",)
    assert expected("A2", 8, 0, 1, "0x6000") is None, "PCIe cards of their own"
    assert expected("A2", 8, 0, 1, "0x7777") is None
    assert expected("910", 3, 0, 1) is None


def test_families_differ_where_checks_ask() -> None:
    hardware = knowledge.hardware()
    a2, a3, duo, next_one = (hardware.family(id) for id in ("A2", "A3", "310P", "950"))
    assert a2 and a3 and duo and next_one
    assert "/dev/devmm_svm" in a2.manager_nodes and "/dev/devmm_svm" not in next_one.manager_nodes
    assert {family.id for family in hardware.families if family.bf16} == {"A2", "A3", "950"}
    assert all(("bf16" in family.allreduce_dtypes) <= family.bf16 for family in hardware.families)
    assert (a3.chips_per_card, a3.devices_per_node, a3.prints_affinity) == ((2,), (16,), False)
    assert (duo.device_nic, a2.device_nic, a2.nic_speed_mbps) == (False, True, 200000)
    assert (a2.memory_of("910B4"), a2.memory_of("Ascend910B3"), a3.memory_of("Ascend910")) == (32768, 65536, 65536)
    assert hardware.family("A4") is None


def test_an_idle_card_may_use_what_its_size_allows() -> None:
    rule = knowledge.hardware().idle_rule
    assert rule.limit_mb(65536) == rule.limit_mb(32768) == 6144
    assert rule.limit_mb(21527) == 4305
    for baseline in knowledge.baselines().idle:
        assert baseline.hbm_used_mb is None or baseline.hbm_total_mb
        assert (baseline.hbm_used_mb or (0, 0))[1] < rule.limit_mb(baseline.hbm_total_mb or 65536)


def test_smoke_thresholds_exist_only_where_something_is_published() -> None:
    smoke = knowledge.baselines().smoke
    assert smoke.threshold("A2", 8) == (75, 25)
    assert smoke.threshold("A2", 3) is None and smoke.threshold("A3", 8) is None
    reference = knowledge.baselines().all_reduce[0]
    for ranks, bus in (reference.bus_gb_s or {}).items():
        published = (reference.size_over_time_gb_s or {})[ranks]
        assert bus == pytest.approx(published * 2 * (int(ranks) - 1) / int(ranks), rel=0.01)
        warning, failure = smoke.threshold("A2", int(ranks)) or (0, 0)
        assert 0 < failure < warning < bus


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("-8005", "-8005"),
        (-8005, "-8005"),
        ("ei0006", "EI0006"),
        (507033, "507033"),
        ("0x80E3A203", "80E3A203"),
        ("80e3a203", "80E3A203"),
        ("81078603", "81078603"),
        ("hccl  7", "HCCL 7"),
        ("hccn 13", "hccn 13"),
        ("EI9998", None),
        ("", None),
    ],
)
def test_a_code_is_known_in_every_usual_spelling(spelled: str | int, code: str | None) -> None:
    found = knowledge.errors().code(spelled)
    assert (found.code if found else None) == code


def test_a_fault_deserves_what_the_board_and_the_job_make_of_it() -> None:
    errors = knowledge.errors()
    power, port = errors.code("80E3A203"), errors.code("81078603")
    assert power and port
    assert (power.severity_on("310B"), power.severity_on("A2"), power.severity_on(None)) == ("info", "error", "error")
    assert (port.severity_on("A2", single_node=True), port.severity_on("A2")) == ("info", "error")
    occupied = errors.code(-8020)
    assert occupied and occupied.severity_on("A2") == "warning", "it does not prove a dead card"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("dcmi module initialize failed. ret is -8005", ["-8005"]),
        (
            "HCCL function error: HcclGetRootInfo(&hcclID), error code is 11\nEJ0003: [PID: 159] x",
            ["HCCL 11", "EJ0003"],
        ),
        ("[PID: 1] 2026-01-01 Get_Socket_Timeout(EI0006): text", ["EI0006"]),
        ("call rtSetDevice failed, ret[107001].", ["107001"]),
        ("Error Code       : 80E3A203", ["80E3A203"]),
        ("pid 107001 of user 207001", []),
        ("EI0006 and again EI0006", ["EI0006"]),
    ],
)
def test_codes_are_found_anywhere_in_a_text(text: str, codes: list[str]) -> None:
    known = [code.id for reading in codes_in(text) for code in reading.codes]
    assert [*dict.fromkeys(known)] == codes


def test_a_message_without_a_code_is_known_too() -> None:
    message = knowledge.errors().message("Invalid card id.\nUsage: npu-smi info")
    assert message and message.pitfalls == ("P052",)
    assert knowledge.errors().message("all is well") is None


def test_symptoms_lead_to_the_pitfall_that_explains_most() -> None:
    pitfalls = knowledge.pitfalls()
    text = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
    assert [pitfall.id for pitfall in pitfalls.match(text)][:2] == ["P001", "P037"]
    assert pitfalls.match("training step 17, loss 2.31") == ()
    assert [pitfall.id for pitfall in pitfalls.with_code("0x80e00209")] == ["P021", "P080"]
    unsure = pitfalls.pitfall("P003")
    assert unsure and unsure.needs_root is None and unsure.root_when == "for sysctl"
    assert pitfalls.pitfall("P999") is None
    assert all((pitfall.needs_root is None) == bool(pitfall.root_when) for pitfall in pitfalls.rows)


@pytest.mark.thorough
@given(st.text(max_size=200))
def test_no_text_upsets_codes_and_symptoms(text: str) -> None:
    errors = knowledge.errors()
    assert all(isinstance(errors.code(spelled), ErrorCode | None) for _, spelled in spelled_in(text))
    errors.code(text)
    errors.message(text)
    assert len(knowledge.pitfalls().match(text)) <= len(knowledge.pitfalls().rows)
    assert bare_name(bare_name(text)) is not None
    knowledge.hardware().family_by_name(text)
    knowledge.hardware().family_by_pci(text)
