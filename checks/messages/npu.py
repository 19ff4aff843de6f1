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
    summary="{count:NPU|NPUs} in PCI {count:slot|slots} {slots} missing from {source}",
    detail="The driver could not start the NPU or has lost it. Jobs on it fail, and those on the other NPUs may.",
    hint="Check the kernel log for this slot. A reboot starts the NPU again; if it stays away, reseat or replace it. "
    "Until then, exclude it with ASCEND_RT_VISIBLE_DEVICES.",
    pitfall="P052",
)
PCI_DEVICE = Sentence("device {device}, driver {driver}")
PCI_DEVICE_NEAR = Sentence("device {device}, driver {driver}, NUMA node {node}")
ROW_WITH_BUS_ID = Sentence("a row with Bus-Id {slots}")
OFF_THE_BUS = Message(
    "npu.count/off-the-bus",
    summary="{count:NPU|NPUs} {npu} ({slot}) {count:is|are} listed by {source} but {count:has|have} dropped off "
    "the PCI bus",
    detail="The driver still knows {count:the NPU|the NPUs}; jobs on {count:it|them} hang or fail.",
    hint="Drain the node and power it off and on. If the fault comes back, reseat or replace {count:it|them}; where "
    "several are affected, check the riser and its power first.",
    pitfall="P052",
)
ROW_OF_NPU = Sentence("NPU {npu}, Bus-Id {bus_id}")
_KERNEL_LOG = (
    "Check the kernel log for the NPU. The driver makes its device node when it starts; a reboot starts it again."
)
PASS_EXACTLY = Sentence("Pass the device nodes of exactly those NPUs into the container that it is to use.")
NODE_MISSING = Message(
    "npu.count/no-device-node",
    summary="device {count:node|nodes} {paths} missing: {chips} {chips:chip|chips} in {source}, {nodes} in /dev",
    detail="Jobs cannot open a chip without a device node.",
    hint=_KERNEL_LOG,
    pitfall="P052",
)
NODE_WITHOUT_CHIP = Message(
    "npu.count/node-without-chip",
    summary="{count:chip|chips} of {paths} missing: {chips} {chips:chip|chips} in {source}, {nodes} in /dev",
    detail="Jobs that open a device node without a chip get no answer.",
    hint=_KERNEL_LOG,
    pitfall="P052",
)
NODES_MISMATCH = Message(
    "npu.count/device-nodes-mismatch",
    summary="chip count mismatch: {chips} {chips:chip|chips} in {source}, {nodes} in /dev",
    detail="Jobs cannot open a chip without a device node, and get no answer from a device node without a chip.",
    hint=_KERNEL_LOG,
    pitfall="P052",
)
NO_ANSWER_AT_START = Message(
    "npu.count/no-answer-at-start",
    summary="{count:NPU|NPUs} gave no answer when the driver's library was initialised",
    detail="The driver lists {count:the NPU|the NPUs} without an id. Jobs that use {count:it|them} fail.",
    hint="Check the kernel log. A reboot starts the NPU again; if it stays away, reseat or replace it.",
    pitfall="P052",
)
ID_IN_THE_LIST = Sentence("id {id} in the list")
SOURCES_DISAGREE = Message(
    "npu.count/sources-disagree",
    summary="the two sources disagree: {fields} differ between the driver's library and npu-smi",
    detail="Both read the same driver. A value that changed between two readings by more than usual is one reason, "
    "a driver or tool of another version a second one.",
    hint="Compare `npudoctor facts dcmi.library` and `npu-smi info`, and report a difference that stays.",
    severity=Severity.INFO,
)
DRIVER = Sentence("the driver")
LIST_OF_THE_DRIVER = Sentence("the driver's list")
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
SILENT = Message(
    "npu.health/no-answer",
    summary="{chip} does not answer: npu-smi shows {health}, but 0 MB of memory",
    detail="npu-smi prints zeros and OK for a chip whose driver calls fail or time out. Jobs on this chip fail, and "
    "every call of npu-smi waits for it.",
    pitfall="P052",
)
RESET_THE_SILENT = Sentence(
    "Read the kernel log, drain the node and reset the chip or reboot. Until then, exclude it from jobs "
    "(ASCEND_RT_VISIBLE_DEVICES)."
)
MEMORY_OF_PEERS = Sentence("memory as that of the other chips, {total_mb:GB}")
SOME_MEMORY = Sentence("memory, a temperature and a power")
ZEROS = Sentence("0 MB of memory, {celsius} °C, {watts:g} W")
FAULT = Sentence("{meaning} ({code})")
UNKNOWN_FAULT = Sentence("unknown fault {count:code|codes} {codes}")
NO_FAULT_CODE = Sentence("no fault code")
WITHOUT_A_CODE = Sentence(
    "Check the kernel log for the chip. Until it reports OK, exclude it from jobs (ASCEND_RT_VISIBLE_DEVICES)."
)
FAULT_NOT_READ = Sentence("fault code not read")
FAULT_INFORMATION = Sentence("Error information of the chip: {information}. Jobs on an unhealthy chip fail.")
CHECK_FIRST = Sentence(
    "Check first: {places}. Until the chip reports OK, exclude it from jobs (ASCEND_RT_VISIBLE_DEVICES)."
)
HEALTH_NOT_SHOWN = Sentence("npu-smi does not show the health of any chip")

# npu.temperature

_COOL = "Check fans, air flow and heat sink of this slot; reduce the load until the chip is cool."
_STOPS = "A chip with hot HBM is slowed down, then stopped."
_SLOWS_DOWN = "A hot chip slows down before it alarms."
COOL_THE_NODE = Sentence(
    "Several chips are hot together: check air intake, fans and room temperature before single chips."
)
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
    summary="memory size mismatch: {total_mb:GB}, others {usual_mb:GB}",
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

BOARD_NOT_READ = Message(
    "npu.uniform/board-not-read",
    summary="firmware and board not compared: {reason}",
    severity=Severity.INFO,
)

# npu.memory-free

FIND_OWNER = Sentence(
    "Find the processes that have the device open, on the host and in all containers; the driver takes up to 20 s "
    "to clean up after one. If no owner is found, reset the NPU to free the memory."
)
MEMORY_HELD = Message(
    "npu.memory-free/held",
    summary="{used_mb:GB} in use by {count:process|processes} {pids}",
    detail="The node was expected to be idle; a job that starts now gets only the rest.",
    hint="Wait for the job or end it; npu.processes shows its owner.",
    severity=Severity.WARNING,
    pitfall="P017",
)
MEMORY_UNEXPLAINED = Message(
    "npu.memory-free/unexplained",
    summary="{unexplained_mb:GB} in use {baseline}, but npu-smi lists no process for it",
    detail="A killed job, or a job in another container, may still hold it. The next job that requires the whole NPU "
    "fails with an out-of-memory error.",
    severity=Severity.WARNING,
    pitfall="P017",
)
MEMORY_HELD_OUTSIDE = Message(
    "npu.memory-free/held-outside-container",
    summary="{unexplained_mb:GB} in use {baseline}; its processes are not visible in this container",
    detail="A job on the host or in another container may hold it. The next job that requires the whole NPU fails with "
    "an out-of-memory error.",
    severity=Severity.INFO,
    pitfall="P017",
)
MEMORY_WITHOUT_TABLE = Message(
    "npu.memory-free/no-process-table",
    summary="{unexplained_mb:GB} in use {baseline}; this npu-smi lists no processes",
    detail="A running job, a killed job, or a job in another container may hold it. The next job that requires the "
    "whole NPU fails with an out-of-memory error.",
    severity=Severity.INFO,
    pitfall="P017",
)
FIND_OWNER_ON_HOST = Sentence(
    "On the host, find the processes that have the device open. If no owner is found there, reset the NPU to free the "
    "memory."
)
OVER_BASELINE = Sentence("over the idle baseline of {baseline_mb:GB}")
BESIDE_PROCESSES = Sentence("beside the {listed_mb:GB} of the listed processes")
IDLE_MEMORY = Sentence("at most {limit_mb:GB} on an idle NPU")
MEMORY_WITHOUT_PROCESS = Sentence("at most {limit_mb:GB} without a process")
MEMORY_AND_PROCESSES = Sentence("{used_mb:GB} of {total_mb:GB} in use, {count} {count:process|processes} listed")
MEMORY_NOT_SHOWN = Sentence("npu-smi does not show the memory of any chip")

# npu.processes

DEAD_PROCESS = Message(
    "npu.processes/dead",
    summary="{count:process|processes} {process} no longer {count:exists|exist} but still "
    "{count:holds this chip|hold chips}",
    detail="The driver still counts {count:the process; its|the processes; their} memory is not free.",
    pitfall="P004",
)
WAIT_THEN_RESET = Sentence(
    "Wait 20 s and check again. If {count:it is|they are} still listed, reset the {npus:NPU|NPUs}, or reboot."
)
ORPHAN = Message(
    "npu.processes/orphan",
    summary="{process} {count:holds this chip|hold chips}, but {count:its|their} launcher has ended",
    detail="A worker of a distributed job is useless once its launcher has ended, but it keeps its chip.",
    hint="Make sure that no other node still works with it, then end it.",
    severity=Severity.WARNING,
    pitfall="P004",
)
IN_USE = Message(
    "npu.processes/in-use",
    summary="{count:chip|chips} in use by {process}",
    detail="A second job on the same chip shares its memory, and fails where both listen on the same port of the chip.",
    hint="Wait for it, or give the next job other NPUs (ASCEND_RT_VISIBLE_DEVICES).",
    pitfall="P023",
)
IN_USE_BY_UNSEEN = Message(
    "npu.processes/in-use-by-unseen",
    summary="{count:chip|chips} in use by {count:process|processes} {process}; details not visible to this user",
    severity=Severity.INFO,
)
IN_USE_BY_HOST = Message(
    "npu.processes/in-use-by-host",
    summary="{count:chip|chips} in use by host {count:process|processes} {process}",
    detail="npu-smi shows the pid on the host, not the pid in this container.",
    severity=Severity.INFO,
)
RANKS_SHARE_CHIPS = Message(
    "npu.processes/ranks-share-chips",
    summary="{ranks} ranks of {process} share {chips} {chips:chip|chips}",
    detail="Ranks that share a chip slow each other down and run out of its memory.",
    hint="Start as many ranks as there are chips in ASCEND_RT_VISIBLE_DEVICES.",
    severity=Severity.WARNING,
    pitfall="P023",
)
RANKS_WITHOUT_CHIPS = Message(
    "npu.processes/ranks-without-chips",
    summary="{ranks} ranks of {process} hold only {chips} {chips:chip|chips}",
    detail="A rank that has not opened its chip after one minute has failed or hangs; the other ranks wait for it.",
    hint="Check the log of the missing rank. Start as many ranks as there are chips in ASCEND_RT_VISIBLE_DEVICES.",
    severity=Severity.WARNING,
    pitfall="P023",
)
PROCESS = Sentence("{name} ({details})")
OTHERS = Sentence("and {count} more {count:process|processes} of its job")
AND_MORE_OF = Sentence("and {count} more ({details} in all)")
PORTS_OF = Sentence("ports on which process {pid} listens")
PID = Sentence("pid {pid}")
USER = Sentence("user {user}")
SINCE = Sentence("since {started}")
NAMELESS = Sentence("process")
LISTED = Sentence("{pid} ({details})")
MEMORY = Sentence("{memory_mb:GB}")
PROCESS_WITH_PID = Sentence("process {pid}")
PROCESS_ON_NPU = Sentence("process {pid} on NPU {npu}")
NONE_OR_ZOMBIE = Sentence("not running, or a zombie")
PROCESSES_OF_HOST = Sentence("processes of this host")
PARENT = Sentence("parent of process {pid}")
A_LAUNCHER = Sentence("a launcher")

# a reset, in several findings

RESET_SERVER = Sentence("A reset of {subject} takes down all {count} chips of this server, with every job on them.")
RESET_SUPERPOD = Sentence(
    "A reset of {subject} takes down the other chip of its NPU and the NPU that is connected with it, with some "
    "drivers all {count} chips of this server."
)
RESET_OTHERS = Sentence("A reset of {subject} also takes down {others}.")
RESET_ALONE = Sentence("A reset of {subject} takes down this chip only.")
RESET_EACH_ALONE = Sentence("A reset of any of {subjects} takes down that chip only.")
RESET_UNKNOWN = Sentence("On A2 and A3 servers a reset takes down several NPUs, or all.")
TAKES_ALL = Sentence("takes down all {count} chips of this server")
TAKES = Sentence("also takes down {others}")
TAKES_NONE = Sentence("takes down this chip only")
TAKES_SEVERAL = Sentence("takes down several NPUs, or all")
WHEN_UNUSED = Sentence("when none has")
WHEN_ENDED = Sentence("when {count:process|processes} {pids} {count:has|have} ended")
WHEN_ALL_ENDED = Sentence("when all {count} processes there have ended")
RESET_USERS = Sentence("In use there: {processes}; these jobs must end first.")
RESET_NO_USERS = Sentence("npu-smi lists no running process there.")
RESET_USERS_UNKNOWN = Sentence("Which processes run there is not known.")
RESET_USER = Sentence("{name} (pid {pid}, {user}) on {places}")
RESET_PROCESS = Sentence("{name} (pid {pid}) on {places}")
AND_MORE = Sentence("{count} more")

# npu.ecc

_WRONG_RESULTS = "Jobs on this chip fail or compute wrong results."
EXCLUDE_AND_RESET = Sentence(
    "Exclude the chip from jobs (ASCEND_RT_VISIBLE_DEVICES), and reset it when no job runs. If errors come back, "
    "replace the NPU."
)
UNCORRECTED = Message(
    "npu.ecc/uncorrected",
    summary="{count} double-bit memory {count:error|errors}",
    detail=_WRONG_RESULTS,
    pitfall="P053",
)
PAGES_USED_UP = Message(
    "npu.ecc/isolated-pages",
    summary="{pages} isolated memory pages, limit {limit:g}",
    detail=_WRONG_RESULTS,
    pitfall="P053",
)
CORRECTED = Message(
    "npu.ecc/corrected",
    summary="memory errors without effect on running jobs: {counts}",
    hint="Check again later whether the counts grow.",
    severity=Severity.INFO,
    pitfall="P053",
)
EARLIER_DOUBLE_BIT = Sentence("{count} earlier double-bit {count:error|errors}")
CORRECTED_SINGLE_BIT = Sentence("{count} corrected single-bit {count:error|errors}")
ISOLATED_PAGES = Sentence("{count} isolated {count:page|pages}")
PAGES_TO_ISOLATE = Sentence("{count} {count:page|pages} to isolate at the next reset")
