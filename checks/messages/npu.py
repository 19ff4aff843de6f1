"""What the checks of the NPUs themselves say; `npu_links` has what those of their links and ports say."""

from npudoctor.sdk import Message, Sentence, Severity

CHIP = Sentence("chip")
NONE = Sentence("none")
CHIPS = Sentence("{count} {count:chip|chips}")
BELOW_CELSIUS = Sentence("below {limit:g} °C")

# npu.present

DRIVER_ONLY = Message(
    "npu.present/driver-only",
    summary="CANN not installed on this node; containers bring their own",
    hint="To check this node as one that trains by itself, add --role full.",
    severity=Severity.INFO,
)
MISSING = Message(
    "npu.present/missing",
    summary="Ascend NPU not found on this host",
    detail="No accelerator is on the PCI bus, and neither /dev nor npu-smi lists one. On a server with NPUs, they are "
    "not seated, not powered, or not passed through to this virtual machine.",
    hint="Check what the PCI bus lists. On a machine without NPUs, `npudoctor demo` shows what a diagnosis looks like.",
    pitfall="P088",
)
MISSING_IN_CONTAINER = Message(
    "npu.present/missing-in-container",
    summary="Ascend NPU not found in this container",
    detail="Neither /dev nor npu-smi lists an NPU in this container.",
    hint="Check which devices the container was started with; the host may have NPUs that it does not pass on.",
    pitfall="P088",
)
AN_NPU = Sentence("an NPU")
NO_ANSWER = Sentence("no answer")

# npu.count

_AGREE = "PCI bus, device nodes and npu-smi agree, so the NPU was not found when the node was started."
_CONTROLLER = "Check the state of the NPU in the server's management controller."
FEWER_CHIPS = Message(
    "npu.count/fewer-chips",
    summary="{count} of {full} chips found",
    detail=_AGREE,
    hint=_CONTROLLER,
    severity=Severity.WARNING,
    pitfall="P052",
)
FEWER_CHIPS_NAMED = Message(
    "npu.count/missing-npu",
    summary="NPU {npu} missing: {count} of {full} chips found",
    detail=_AGREE,
    hint=_CONTROLLER,
    severity=Severity.WARNING,
    pitfall="P052",
)
NPUS_LISTED = Sentence("NPU {npus}")
NOT_IN_NPU_SMI = Message(
    "npu.count/not-in-npu-smi",
    summary="{count:NPU|NPUs} in PCI {count:slot|slots} {slots} missing from npu-smi",
    detail="The driver could not start the NPU or has lost it. Jobs on all NPUs of the node fail.",
    hint="Check the kernel log for this slot. A reboot starts the NPU again; if it stays away, reseat or replace it. "
    "Until then, exclude it with ASCEND_RT_VISIBLE_DEVICES.",
    pitfall="P052",
)
PCI_DEVICE = Sentence("device {device}, driver {driver}")
PCI_DEVICE_NEAR = Sentence("device {device}, driver {driver}, NUMA node {node}")
ROW_WITH_BUS_ID = Sentence("a row with Bus-Id {slots}")
OFF_THE_BUS = Message(
    "npu.count/off-the-bus",
    summary="NPU {npu} ({slot}) is listed by npu-smi but has dropped off the PCI bus",
    detail="The driver still knows the NPU; jobs on it hang or fail.",
    hint="Drain the node and power it off and on. If the NPU drops off again, reseat or replace it.",
    pitfall="P052",
)
ROW_OF_NPU = Sentence("NPU {npu}, Bus-Id {bus_id}")
_KERNEL_LOG = "Check the kernel log for the NPU. Pass exactly the NPUs that it is to use into a container."
NODE_MISSING = Message(
    "npu.count/no-device-node",
    summary="device {count:node|nodes} {paths} missing: {chips} {chips:chip|chips} in npu-smi, {nodes} in /dev",
    detail="Jobs cannot open a chip without a device node.",
    hint=_KERNEL_LOG,
    pitfall="P052",
)
NODE_WITHOUT_CHIP = Message(
    "npu.count/node-without-chip",
    summary="{count:chip|chips} of {paths} missing: {chips} {chips:chip|chips} in npu-smi, {nodes} in /dev",
    detail="Jobs that open a device node without a chip get no answer.",
    hint=_KERNEL_LOG,
    pitfall="P052",
)
NODES_MISMATCH = Message(
    "npu.count/device-nodes-mismatch",
    summary="chip count mismatch: {chips} {chips:chip|chips} in npu-smi, {nodes} in /dev",
    detail="Jobs cannot open a chip without a device node, and get no answer from a device node without a chip.",
    hint=_KERNEL_LOG,
    pitfall="P052",
)
DEVICE_NODES = Sentence("{count} device {count:node|nodes}")

# npu.health

_UNHEALTHY = "Jobs on an unhealthy chip fail."
_LOOK_UP = "Look up the fault code. Until the chip reports OK, exclude it from jobs (ASCEND_RT_VISIBLE_DEVICES)."
ALARM = Message(
    "npu.health/alarm",
    summary="{chip} reports {health}: {faults}",
    detail=_UNHEALTHY,
    hint=_LOOK_UP,
)
CRITICAL = Message(
    "npu.health/critical",
    summary="{chip} reports {health}: {faults}",
    detail=_UNHEALTHY,
    hint=_LOOK_UP,
)
WARNING = Message(
    "npu.health/warning",
    summary="{chip} reports {health}: {faults}",
    detail=_UNHEALTHY,
    hint=_LOOK_UP,
    severity=Severity.WARNING,
)
OTHER_HEALTH = Message(
    "npu.health/other",
    summary="{chip} reports {health}: {faults}",
    detail=_UNHEALTHY,
    hint=_LOOK_UP,
)
NO_HEALTH = Message(
    "npu.health/not-reported",
    summary="{chip} reports no health: {faults}",
    detail=_UNHEALTHY,
    hint=_LOOK_UP,
    severity=Severity.WARNING,
)
FAULT = Sentence("{meaning} ({code})")
UNKNOWN_FAULT = Sentence("unknown fault code {code}")
NO_FAULT_CODE = Sentence("no fault code")
FAULT_NOT_READ = Sentence("fault code not read")
FAULT_INFORMATION = Sentence("Error information of the chip: {information}. Jobs on an unhealthy chip fail.")
CHECK_FIRST = Sentence(
    "First check: {places}. Until the chip reports OK, exclude it from jobs (ASCEND_RT_VISIBLE_DEVICES)."
)
HEALTH_NOT_SHOWN = Sentence("npu-smi does not show the health of any chip")

# npu.temperature

_COOL = "Check fans, air flow and heat sink of this slot; reduce the load until the chip is cool."
_STOPS = "HBM alarms above 95 °C; a chip with hot HBM is slowed down, then stopped."
_SLOWS_DOWN = "A chip slows down before it alarms; HBM alarms above 95 °C."
WARM_CHIP = Message(
    "npu.temperature/warm",
    summary="{chip} at {celsius} °C, limit {limit:g} °C",
    detail=_SLOWS_DOWN,
    hint=_COOL,
    severity=Severity.WARNING,
    pitfall="P080",
)
HOT_CHIP = Message(
    "npu.temperature/hot",
    summary="{chip} at {celsius} °C, limit {limit:g} °C",
    detail=_SLOWS_DOWN,
    hint=_COOL,
    pitfall="P080",
)
HOTTER_THAN_PEERS = Message(
    "npu.temperature/above-peers",
    summary="{chip} at {celsius} °C, {difference} °C above its peers",
    detail=_SLOWS_DOWN,
    hint=_COOL,
    severity=Severity.WARNING,
    pitfall="P080",
)
WARM_MEMORY = Message(
    "npu.temperature/warm-memory",
    summary="HBM of {chip} at {celsius} °C, limit {limit:g} °C",
    detail=_STOPS,
    hint=_COOL,
    severity=Severity.WARNING,
    pitfall="P080",
)
HOT_MEMORY = Message(
    "npu.temperature/hot-memory",
    summary="HBM of {chip} at {celsius} °C, limit {limit:g} °C",
    detail=_STOPS,
    hint=_COOL,
    pitfall="P080",
)
BELOW_OWN_LIMIT = Sentence("below {limit:g} °C (npudoctor's own limit)")
AS_PEERS = Sentence("about {celsius} °C, as its peers")
TEMPERATURE_NOT_SHOWN = Sentence("npu-smi does not show the temperature of any chip")

# npu.uniform

MODEL_MISMATCH = Message(
    "npu.uniform/model",
    summary="NPU model mismatch: {odd}; others {usual}",
    detail="Collectives run at the pace of the slowest NPU, and an NPU of another model may lack what the job uses.",
    hint="Use NPUs of one model in one job.",
    severity=Severity.WARNING,
)
MEMORY_MISMATCH = Message(
    "npu.uniform/memory",
    summary="memory size mismatch: {total_mb} MB, others {usual_mb} MB",
    detail="A job that fits the others runs out of memory on this chip.",
    hint="Exclude the chip from jobs, or size jobs for it.",
    severity=Severity.WARNING,
)
FIRMWARE_MISMATCH = Message(
    "npu.uniform/firmware",
    summary="firmware mismatch: {odd}; others {usual}",
    detail="Mixed firmware causes failures that are hard to find.",
    hint="Install the same firmware on all NPUs.",
    severity=Severity.WARNING,
)
BOARD_MISMATCH = Message(
    "npu.uniform/board",
    summary="board revision mismatch: {odd}; others {usual}",
    detail="Collectives run at the pace of the slowest NPU, and another board may lack what the job uses.",
    hint="Use NPUs of one board revision in one job.",
    severity=Severity.WARNING,
)
