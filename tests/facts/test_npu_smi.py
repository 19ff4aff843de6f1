"""What the parsers of npu-smi make of tables that are cut, elided, rearranged, sick, or of a tool yet to come."""

from pathlib import Path

import pytest

from npudoctor.facts.npu_smi import (
    Chip,
    NpuProcess,
    NpuSmiFailure,
    parse_board,
    parse_failure,
    parse_fields,
    parse_info,
    parse_list,
    parse_map,
    parse_tool_version,
    parse_topology,
)
from npudoctor.host import ParseError

DATA = Path(__file__).parent / "data"
HEADER = """\
| NPU   Name      | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip            | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+=================+===============+====================================================+
"""
UPPER = "| 3     910B2     | OK            | 93.3        45                0    / 0             |\n"
LOWER = "| 0               | 0000:C1:00.0  | 7           0    / 0          3371 / 65536         |\n"
BORDER = "+=================+===============+====================================================+\n"
PROCESSES = "| NPU     Chip    | Process id    | Process name             | Process memory(MB)      |\n"


def only(text: str) -> Chip:
    (chip,) = parse_info(text).npus
    return chip


def topology(name: str) -> str:
    return (DATA / f"npu-smi-topo/{name}.txt").read_text(encoding="utf-8")


def test_a_header_without_rows_is_a_node_without_chips() -> None:
    assert parse_info(HEADER).npus == ()


@pytest.mark.parametrize("text", ["| npu-smi 24.1.0     Version: 24.1.0   |\n", PROCESSES, LOWER])
def test_what_does_not_tell_of_the_chips_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_info(text)


def test_an_unknown_header_is_an_error_and_not_a_node_without_chips() -> None:
    with pytest.raises(ParseError, match=r"no row of a chip is understood \(line 1"):
        parse_info("| Accelerator | State |\n+===+===+\n| 0 910B2 | fine |\n| 1 910B2 | fine |\n")


def test_the_order_of_the_columns_is_that_of_the_header() -> None:
    chip = only(
        "| Health | NPU Name | Temp(C) Fan Speed(%) Hugepages-Usage(page) Power(W) |\n"
        "| Bus-Id | Chip Phy-ID | HBM-Usage(MB) AICore(%) Memory-Usage(MB) |\n"
        "| OK | 3 910B2 | 45 80 1 / 2 93.3 |\n"
        "| 0000:C1:00.0 | 0 6 | 3371 / 65536 7 5 / 9 |\n"
    )
    assert (chip.npu_id, chip.name, chip.power_w, chip.temp_c) == (3, "910B2", 93.3, 45)
    assert (chip.chip_id, chip.phy_id, chip.hbm_used_mb, chip.mem_total_mb) == (0, 6, 3371, 9)


def test_cells_that_say_nothing_are_none() -> None:
    chip = only(HEADER + "| 3  910B2 | NA | NA 45 N/A / - |\n| 0 | - | NA NA / 0 NA |\n")
    assert chip == Chip(npu_id=3, chip_id=0, name="910B2", temp_c=45, mem_total_mb=0)


def test_a_value_that_is_gone_leaves_its_neighbours_unknown() -> None:
    chip = only(HEADER + "| 3  910B2 | OK | 45 0 / 7 |\n| 0 | 0000:C1:00.0 | 7 3371 / 65536 |\n")
    assert (chip.power_w, chip.temp_c, chip.hugepages_total) == (None, None, 7)
    assert (chip.aicore_pct, chip.mem_used_mb, chip.hbm_used_mb) == (7, None, None)


def test_health_may_be_of_several_words() -> None:
    assert only(HEADER + UPPER.replace("OK ", "Not Ready (2)") + LOWER).health == "Not Ready (2)"


def test_half_a_chip_is_kept_without_numbers() -> None:
    assert only(HEADER + UPPER) == Chip(
        npu_id=3, name="910B2", health="OK", power_w=93.3, temp_c=45, hugepages_used=0, hugepages_total=0
    )


@pytest.mark.parametrize("between", [BORDER, "...\n", "... (4 more)\n", UPPER.replace("| 3 ", "| 4 ")])
def test_halves_of_two_chips_are_never_one(between: str) -> None:
    first = parse_info(HEADER + UPPER + between + LOWER).npus[0]
    assert (first.npu_id, first.bus_id, first.hbm_used_mb) == (3, None, None)


def test_a_message_between_two_halves_does_not_part_them() -> None:
    assert only(HEADER + UPPER + "\nDrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n" + LOWER).hbm_used_mb == 3371


def test_a_lower_half_alone_is_no_chip() -> None:
    assert [chip.npu_id for chip in parse_info(HEADER + LOWER + BORDER + UPPER + LOWER).npus] == [3]


@pytest.mark.parametrize("length", range(1, len(LOWER) - 1))
def test_a_number_that_may_be_cut_is_not_read(length: int) -> None:
    chip = only(HEADER + UPPER + LOWER[:length])
    assert chip.bus_id in (None, "0000:C1:00.0")
    assert (chip.hbm_used_mb, chip.hbm_total_mb) == ((3371, 65536) if LOWER[:length].endswith("|\n") else (None, None))


def test_the_later_reading_of_a_chip_counts() -> None:
    chip = only((HEADER + UPPER + LOWER) + (HEADER + UPPER + LOWER).replace("3371", "60000"))
    assert chip.hbm_used_mb == 60000


def test_a_table_of_virtual_npus_adds_no_chip() -> None:
    info = parse_info(
        HEADER
        + UPPER
        + LOWER
        + BORDER
        + "| Total number of vnpu: 1 |\n+---+\n| Vnpu ID | Vgroup ID | Status | Template |\n"
        "+===+\n| 100 | 0 | 0 | vir04 |\n| 101 | 0 | 0 | vir04 |\n"
    )
    assert [chip.npu_id for chip in info.npus] == [3]
    assert info.processes == ()


def test_a_process_may_have_no_name_or_a_bar_in_it() -> None:
    rows = "| 3       0       | 1333928       |                          | 37709                   |\n"
    rows += "| 3       0       | 7             | a|b                      | NA                      |\n"
    assert parse_info(HEADER + UPPER + LOWER + PROCESSES + rows).processes == (
        NpuProcess(npu_id=3, chip_id=0, pid=1333928, memory_mb=37709),
        NpuProcess(npu_id=3, chip_id=0, pid=7, name="a|b"),
    )


def test_a_row_of_a_process_is_one_without_its_header() -> None:
    info = parse_info(HEADER + UPPER + LOWER + "| 3 0 | 41 | python | 12 | 7 |\n| 3 | 42 | python | 12 |\n")
    assert [(process.chip_id, process.pid, process.container_pid) for process in info.processes] == [
        (0, 41, 7),
        (None, 42, None),
    ]
    assert len(info.npus) == 1


def test_without_a_table_of_processes_nobody_is_known_to_be_idle() -> None:
    assert parse_info(HEADER + UPPER + LOWER).idle_npus is None
    assert parse_info(HEADER + UPPER + LOWER + PROCESSES).idle_npus == ()
    idle = "| No running processes found in NPU 3   |\n"
    assert parse_info(HEADER + UPPER + LOWER + PROCESSES + idle).idle_npus == (3,)


def test_rows_without_any_header_are_known_by_their_shape() -> None:
    card = only("| 2 310P3 | OK | NA 37 0 / 0 |\n| 0 5 | 0000:81:00.0 | 3 1848 / 21525 |\n")
    assert (card.device_id, card.phy_id, card.mem_used_mb, card.hbm_used_mb) == (5, None, 1848, None)
    a3 = only("| 2 Ascend910 | OK | - 37 0 / 0 |\n| 1 5 | 0000:81:00.0 | 3 0 / 0 48 / 64 |\n")
    assert (a3.device_id, a3.phy_id, a3.power_w, a3.hbm_used_mb) == (None, 5, None, 48)
    new = only("| 2 | Ascend950PR | OK | 215.0 37 0 / 0 |\n|  |  | NA | 3 0 / 0 48 / 64 |\n")
    assert (new.npu_id, new.chip_id, new.name, new.temp_c, new.hbm_total_mb) == (2, None, "Ascend950PR", 37, 64)


def test_two_devices_are_linked_both_ways_or_nobody_knows() -> None:
    read = parse_topology(topology("A3-cut-after-two-rows"))
    assert read.link("Phy-ID2", "Phy-ID3") == "SIO"
    assert read.link("Phy-ID3", "Phy-ID12") == "HCCS_SW"
    assert read.link("Phy-ID12", "Phy-ID3") is None
    assert read.link("Phy-ID2", "Phy-ID99") is None


def test_a_row_that_is_missing_in_the_middle_is_empty() -> None:
    lines = topology("910B-hccs").splitlines()
    assert [len(row) for row in parse_topology("\n".join(lines[:2] + lines[3:])).matrix] == [4, 0, 4, 4]


@pytest.mark.parametrize("lost", ["NPU0 ", "NPU4 ", "NPU7 "])
def test_a_matrix_whose_header_lacks_a_column_is_refused(lost: str) -> None:
    header, rest = topology("910B-hccs").split("\n", 1)
    with pytest.raises(ParseError, match="no matrix"):
        parse_topology(header.replace(lost, "") + "\n" + rest)


def test_a_header_alone_is_no_matrix() -> None:
    with pytest.raises(ParseError):
        parse_topology(topology("910B-hccs").split("\n")[0])


def test_an_affinity_that_is_not_known_is_left_out() -> None:
    text = topology("910B-hccs").replace("144-167", "NA").replace("96-119", "")
    assert parse_topology(text).cpu_affinity == {"NPU1": "0-23", "NPU7": "48-71"}


def test_a_page_keeps_its_first_value_and_the_lines_of_each() -> None:
    page = "\tTemperature(C)  : 46\n\tChip Name  : mcu\n\tTemperature(C)  : 38\n"
    assert parse_fields(page) == {"Temperature(C)": "46", "Chip Name": "mcu"}
    health = "Error Code  : 80E3A203\nError Information: node type=LPM,\n                   event state=gone\n"
    assert parse_fields(health)["Error Information"] == "node type=LPM,\nevent state=gone"
    assert parse_fields("\tDie   : A\n\t      : B\n\tNext  : NA\n") == {"Die": "A\nB", "Next": None}
    assert parse_fields("hccs lane mode    : [4       2      ]\nphy :3\n") == {
        "hccs lane mode": "[4       2      ]",
        "phy": "3",
    }


def test_a_board_may_be_asked_for_a_card_that_does_not_answer() -> None:
    failure = (DATA / "npu-smi-error/card-gone.txt").read_text(encoding="utf-8")
    with pytest.raises(ParseError, match="card_not_found"):
        parse_board(failure)
    assert parse_failure(failure) == NpuSmiFailure("card_not_found")


def test_a_server_without_cards_lists_and_maps_none() -> None:
    text = "There is no NPU card on this server.\n"
    assert (parse_list(text).total, parse_list(text).npus, parse_map(text).rows) == (0, (), ())


def test_an_answer_is_no_failure() -> None:
    assert parse_failure("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n") is None
    assert parse_failure("permission denied\n" + HEADER + UPPER + LOWER) is None
    for folder in ("npu-smi-board", "npu-smi-list", "npu-smi-map", "npu-smi-topo", "npu-smi-version"):
        for file in (DATA / folder).glob("*.txt"):
            is_whole = file.stem != "no-card" and not file.stem.endswith("-fails")
            assert (parse_failure(file.read_text(encoding="utf-8")) is None) is is_whole, file.name


def test_the_version_of_the_tool_is_told_from_an_mcus() -> None:
    assert parse_tool_version("npu-smi version: 25.0.rc1\n").component is None
    assert parse_tool_version("\tVersion  : 23.3.13\n").component == "mcu"
