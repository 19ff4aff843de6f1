"""The machines that can be simulated: how many chips of which kind, where they sit, and what idle ones show.

Figures are those of public listings (chip names, memory, PCI ids, idle power and temperatures of the same products).
"""

from __future__ import annotations

from npudoctor.records import record, replace

NUMA_8X24 = {str(node): f"{24 * node}-{24 * node + 23}" for node in range(8)}
"""Four Kunpeng 920 processors of 48 cores: eight NUMA nodes."""

NUMA_2X48 = {"0": "0-47", "1": "48-95"}


@record(frozen=True, kw_only=True)
class Seat:
    """Where an NPU sits: PCI addresses of its chips, their NUMA node, and the CPUs near it as npu-smi prints them."""

    bus_ids: tuple[str, ...]
    numa_node: int
    affinity: str | None = None


@record(frozen=True, kw_only=True)
class Product:
    """One machine model. Lists of idle values go round over the chips; memory is in MB, frequency in MHz.

    `family` is 910, A2, A3, 310P or 950; `ops` names the operator package of the chip, `kernels` its folder below opp.
    `mem_total_mb` is DDR per chip of an NPU, `hbm_total_mb` HBM (0: none). `slots` are npu-smi's ids in order.
    """

    name: str
    family: str
    chip: str
    soc: str
    ops: str
    kernels: str
    device_id: str
    subsystem_id: str
    board_id: str
    slots: tuple[int, ...]
    seats: tuple[Seat, ...]
    numa_nodes: dict[str, str]
    memory_gib: int
    machine: str = "aarch64"
    hbm_total_mb: int = 0
    mem_total_mb: tuple[int, ...] = (0,)
    hbm_used_mb: tuple[int, ...] = (0,)
    mem_used_mb: tuple[int, ...] = (0,)
    power_w: tuple[float | None, ...] = (None,)
    temp_c: tuple[int, ...] = (40,)
    hugepages: tuple[int, int] = (0, 0)
    aicore_count: int = 20
    aicore_mhz: tuple[int, int] = (1800, 800)
    driver: str = "25.2.0"
    cann: str = "8.2.RC1"
    has_mcu: bool = True
    has_nic: bool = True

    @property
    def chips_per_card(self) -> int:
        """How many chips sit on one NPU."""
        return max((len(seat.bus_ids) for seat in self.seats), default=1)


def _seats(places: str, affinity: bool = True) -> tuple[Seat, ...]:
    """Seats from `c1@6 01@0`: bus and NUMA node."""
    seats = []
    for place in places.split():
        buses, _, node = place.partition("@")
        near = NUMA_8X24[node] if affinity else None
        seats.append(
            Seat(bus_ids=tuple(f"0000:{bus}:00.0" for bus in buses.split("+")), numa_node=int(node), affinity=near)
        )
    return tuple(seats)


_A2_IN_PAIRS = _seats("c1@6 c2@6 81@4 82@4 01@0 02@0 41@2 42@2")
_A2_IN_TURN = _seats("c1@6 01@0 c2@6 02@0 81@4 41@2 82@4 42@2")

_A2 = Product(
    name="atlas-800t-a2-910b3",
    family="A2",
    chip="910B3",
    soc="Ascend910B3",
    ops="910b",
    kernels="ascend910b",
    device_id="0xd802",
    subsystem_id="0x3000",
    board_id="0x64",
    slots=tuple(range(8)),
    seats=_A2_IN_PAIRS,
    numa_nodes=NUMA_8X24,
    memory_gib=1536,
    hbm_total_mb=65536,
    hbm_used_mb=(3401, 3398, 3403, 3399, 3402, 3400, 3397, 3404),
    power_w=(94.1, 96.8, 91.7, 95.0, 93.3, 97.9, 92.6, 95.5),
    temp_c=(41, 39, 42, 40, 43, 41, 40, 42),
)

_A3 = Product(
    name="atlas-800t-a3",
    family="A3",
    chip="Ascend910",
    soc="Ascend910_9391",
    ops="a3",
    kernels="ascend910_93",
    device_id="0xd803",
    subsystem_id="0x3000",
    board_id="0xb0",
    slots=tuple(range(8)),
    seats=_seats("9c+9e@4 37+39@1 b5+b7@5 41+43@2 c1+c3@6 0a+0c@0 d5+d7@7 6b+6d@3", affinity=False),
    numa_nodes=NUMA_8X24,
    memory_gib=2048,
    hbm_total_mb=65536,
    hbm_used_mb=(3131, 2874, 3118, 2881, 3127, 2869, 3122, 2877),
    power_w=(164.2, 167.9, 161.5, 165.8),
    temp_c=(38, 37, 39, 38),
    aicore_count=24,
    driver="25.5.0",
    cann="8.5.0",
)

_910A = Product(
    name="atlas-800-9010",
    family="910",
    chip="910A",
    soc="Ascend910A",
    ops="910",
    kernels="ascend910",
    device_id="0xd801",
    subsystem_id="0x0100",
    board_id="0x02",
    slots=tuple(range(8)),
    seats=tuple(
        Seat(bus_ids=(f"0000:{bus}:00.0",), numa_node=node, affinity=NUMA_2X48[str(node)])
        for bus, node in zip(("61", "db", "b2", "3e", "60", "da", "b1", "3d"), (0, 1, 1, 0, 0, 1, 1, 0), strict=True)
    ),
    numa_nodes=NUMA_2X48,
    memory_gib=768,
    machine="x86_64",
    hbm_total_mb=32768,
    hbm_used_mb=(0,),
    mem_total_mb=(15077,),
    mem_used_mb=(1867, 1866, 1868, 1865, 1867, 1864, 1865, 1866),
    power_w=(67.1, 68.4, 70.2, 69.5, 66.9, 71.0, 68.8, 69.9),
    temp_c=(38, 37, 38, 37),
    hugepages=(15, 15),
    aicore_count=30,
    aicore_mhz=(1000, 900),
    driver="23.0.5",
    cann="8.0.0",
    has_mcu=False,
)

_DUO = Product(
    name="atlas-300i-duo",
    family="310P",
    chip="310P3",
    soc="Ascend310P3",
    ops="310p",
    kernels="ascend310p",
    device_id="0xd500",
    subsystem_id="0x0110",
    board_id="0x2c",
    slots=(1, 4),
    seats=tuple(
        Seat(bus_ids=(f"0000:{bus}:00.0",) * 2, numa_node=node, affinity=NUMA_2X48[str(node)])
        for bus, node in (("01", 0), ("81", 1))
    ),
    numa_nodes=NUMA_2X48,
    memory_gib=512,
    mem_total_mb=(44280, 43693),
    mem_used_mb=(1850, 1497, 1848, 1502),
    temp_c=(47, 45, 46, 44),
    aicore_count=8,
    aicore_mhz=(1080, 1080),
    driver="25.2.0",
    cann="8.3.RC1",
    has_nic=False,
)

_PRO_SEATS = (
    Seat(bus_ids=("0000:3b:00.0",), numa_node=0, affinity=NUMA_2X48["0"]),
    Seat(bus_ids=("0000:af:00.0",), numa_node=1, affinity=NUMA_2X48["1"]),
)

_950 = Product(
    name="atlas-350-950pr",
    family="950",
    chip="Ascend950PR",
    soc="Ascend950PR_9579",
    ops="950",
    kernels="ascend950",
    device_id="0xd806",
    subsystem_id="0x4003",
    board_id="0x1b",
    slots=tuple(range(8)),
    seats=_A2_IN_PAIRS,
    numa_nodes=NUMA_8X24,
    memory_gib=1536,
    hbm_total_mb=131072,
    hbm_used_mb=(5407, 5391, 5412, 5398),
    power_w=(215.0, 208.3, 211.7, 219.4),
    temp_c=(48, 46, 49, 47),
    driver="25.7.rc1",
    cann="9.0.0",
    has_mcu=False,
)

_BARE = Product(
    name="none",
    family="",
    chip="",
    soc="",
    ops="",
    kernels="",
    device_id="",
    subsystem_id="",
    board_id="",
    slots=(),
    seats=(),
    numa_nodes=NUMA_2X48,
    memory_gib=256,
)

PRODUCTS = {
    product.name: product
    for product in (
        _A2,
        replace(_A2, name="atlas-800t-a2-910b1", chip="910B1", soc="Ascend910B1", seats=_A2_IN_TURN, aicore_count=24),
        replace(_A2, name="atlas-800t-a2-910b2", chip="910B2", soc="Ascend910B2", aicore_count=24),
        replace(
            _A2,
            name="atlas-800i-a2-910b4",
            chip="910B4",
            soc="Ascend910B4",
            subsystem_id="0x3002",
            hbm_total_mb=32768,
            hbm_used_mb=(2801, 2797, 2803),
            power_w=(78.2, 77.9, 79.4),
        ),
        _A3,
        _910A,
        replace(_910A, name="atlas-800-9000", machine="aarch64"),
        _950,
        _DUO,
        replace(_DUO, name="atlas-300i-pro", seats=_PRO_SEATS, slots=(2, 5), mem_total_mb=(21527,), board_id="0x1e"),
        _BARE,
    )
}
