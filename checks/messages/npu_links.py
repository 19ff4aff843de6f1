"""What the checks of the NPUs' links say: PCIe, CPU affinity, network ports, clocks, links among each other."""

from npudoctor.sdk import Message, Sentence, Severity

NONE = Sentence("none")
MORE = Sentence("{count} more")
ABOUT = Sentence("about {count}")

# npu.pcie

SLOW_LINK = Message(
    "npu.pcie/slow-link",
    summary="PCIe {count:link|links} in {count:slot|slots} {slot} {count:runs|run} at {now} instead of {most}",
    detail="Loading data, checkpoints and offloading are slower there, and the other ranks wait.",
    hint="Reboot once, so that {count:the link is|the links are} trained again; then reseat the NPU or its riser.",
    severity=Severity.WARNING,
)
ALL_LINKS_SLOW = Message(
    "npu.pcie/all-links-slow",
    summary="PCIe links of all NPUs run at {now} instead of {most}",
    detail="All links are equal: the slots of this server, or a BIOS setting, allow no more.",
    hint="Compare with the data sheet of the server.",
    severity=Severity.INFO,
)
OTHER_NPUS = Sentence("the same file of the other NPUs")
FATAL_ERRORS = Message(
    "npu.pcie/fatal-errors",
    summary="{count} fatal PCIe {count:error|errors} in {slots:slot|slots} {slot}",
    detail="A fatal error means that the link was lost and set up again; jobs on the NPU failed at that time.",
    hint="Check the kernel log for {slots:this slot|these slots}. If errors come back, reseat or replace the NPU.",
    severity=Severity.WARNING,
    pitfall="P052",
)

# npu.affinity

NO_AFFINITY = Message(
    "npu.affinity/missing",
    summary="CPU affinity missing; other NPUs have one",
    detail="Launchers that bind ranks by affinity leave the rank of this NPU unbound.",
    hint="Check the NUMA node of the NPU, and whether its slot is listed with the others.",
    severity=Severity.WARNING,
)
CPU_RANGE = Sentence("a range of CPUs")
_LIMITED = "Jobs started here are limited to other CPUs by taskset, by the container's cpuset, or by the batch system."
_GIVE_CPUS = "Give the job CPUs near its NPUs, or NPUs near its CPUs."
CPUS_NOT_ALLOWED = Message(
    "npu.affinity/not-allowed",
    summary="CPUs near this NPU not available to this process",
    detail=_LIMITED,
    hint=_GIVE_CPUS,
    severity=Severity.WARNING,
)
NO_CPUS_ALLOWED = Message(
    "npu.affinity/none-allowed",
    summary="CPUs near the NPUs not available to this process",
    detail=_LIMITED,
    hint=_GIVE_CPUS,
    severity=Severity.WARNING,
)
CPUS_OF_PROCESS = Sentence("CPUs of this process")
SOME_OF_THEM = Sentence("some of them")
AFFINITY_CONTRADICTS_BUS = Message(
    "npu.affinity/contradicts-bus",
    summary="{count} NPUs share {cpu_count} CPUs ({cpus}) by affinity, but are on several NUMA nodes",
    detail="Ranks that are bound by affinity all run on these CPUs.",
    hint="Bind ranks yourself, by the NUMA nodes of the NPUs.",
    severity=Severity.WARNING,
)
AFFINITY_CROWDED = Message(
    "npu.affinity/crowded",
    summary="{count} NPUs share {cpu_count} CPUs ({cpus}) by affinity",
    detail="Ranks that are bound by affinity all run on these CPUs and leave the other CPUs idle.",
    hint="If the server has several sockets, spread its NPUs over them.",
    severity=Severity.INFO,
)
CPUS_OF_SEVERAL_NODES = Sentence("CPUs of several NUMA nodes")
AFFINITY_NOT_SHOWN = Sentence("npu-smi does not show the CPU affinity of any NPU")
AFFINITY_NOT_PRINTED = Sentence("npu-smi does not show CPU affinity on {series}")
AFFINITY_NOT_READ = Sentence("CPU affinity of {device} could not be read: {problem}")

# npu.fabric

_BOTH_ENDS = "Both ends of a link need the same error correction (FEC); otherwise it stays down or loses packets."
_SET_FEC = "Set the mode of the switch port, usually Reed-Solomon."
FEC_OFF = Message(
    "npu.fabric/fec-off",
    summary="FEC off on the network port",
    detail=_BOTH_ENDS,
    hint=_SET_FEC,
    severity=Severity.WARNING,
    pitfall="P076",
)
FEC_MISMATCH = Message(
    "npu.fabric/fec-mismatch",
    summary="FEC mode mismatch: `{mode}` on this network port, `{usual}` on the others",
    detail=_BOTH_ENDS,
    hint=_SET_FEC,
    severity=Severity.WARNING,
    pitfall="P076",
)
FLAPPING = Message(
    "npu.fabric/flapping",
    summary="network port flapping: went down {falls} {falls:time|times}, the others {usual} {usual:time|times}",
    detail="Jobs over this link fail with EI0013 or with too many retries.",
    hint="Check the cable and the optical modules at both ends, and the counters of the switch port.",
    severity=Severity.WARNING,
    pitfall="P049",
)
LAST_CHANGE = Sentence("last change of the link")
BAD_PACKETS = Message(
    "npu.fabric/bad-packets",
    summary="{packets} bad packets on the network port, about {usual} on the others",
    detail="Counted since the NPU started. Every retry delays all ranks, and too many fail the job with EI0013.",
    hint="Check whether the count grows; then check cable, optical modules, and flow control (PFC, ECN) of the switch.",
    severity=Severity.WARNING,
    pitfall="P049",
)
BACK_TO_BACK = Message(
    "npu.fabric/back-to-back",
    summary="{count} network {count:port|ports} cabled to another NPU instead of a switch",
    detail="NPUs with different numbers cannot reach each other, so collectives over all ranks fail.",
    hint="Connect the NPUs through a switch, or use only one NPU of each node.",
    severity=Severity.WARNING,
    pitfall="P077",
)
A_SWITCH = Sentence("a switch")

NOT_ANSWERED = Message(
    "npu.fabric/not-answered",
    summary="not compared between the ports: {reason}",
    detail="`{question}` gave no answer; the rest of this check does not depend on it.",
    severity=Severity.INFO,
)

# npu.throttled

SLOW_CLOCK = Message(
    "npu.throttled/slow-clock",
    summary="clock {now_mhz} MHz under load, rated {rated_mhz} MHz",
    detail="A job over several NPUs runs at the pace of this one.",
    hint="Check temperature and power of the chip, the power supplies, and the power capping of the server.",
    severity=Severity.WARNING,
    pitfall="P080",
)
ALL_CLOCKS_SLOW = Sentence("All chips under load are slow: the power of the node is limited, or it is too hot.")
SHARE_OF_CLOCK = Sentence("at least {percent:g} % of {rated_mhz} MHz")
UNDER_LOAD = Sentence("AICore at {percent} % or more")

# npu.links

_CHECK_PORT = "Check the cable, the optical module and the switch port; then apply the settings again."
PORT_DOWN = Message(
    "npu.links/down",
    summary="network port is {status}",
    detail="A single node does not need the port; jobs over several nodes fail while they connect.",
    hint=_CHECK_PORT,
    severity=Severity.WARNING,
    pitfall="P026",
)
ALL_PORTS_DOWN = Message(
    "npu.links/all-down",
    summary="network ports of all NPUs are down",
    detail="A single node does not need the ports; they are probably not cabled.",
    hint="No action is needed while jobs stay on this node.",
    severity=Severity.INFO,
    pitfall="P026",
)
JOB_NEEDS_PORTS = Sentence("The job of this environment spans several nodes: it waits for the port, then fails.")
CHECK_PORTS = Sentence(_CHECK_PORT)
CHECK_FABRIC = Sentence(
    "The port leads to the fabric of the SuperPoD (HCCS): check the health of this chip, and the fabric in the "
    "management of the SuperPoD."
)

# npu.network

_SET_ADDRESS = (
    "Set address, netmask, gateway and detect address; /etc/hccn.conf keeps them after a reboot. "
    "`npudoctor fix npu.address` sets them from a table."
)
NO_ADDRESS = Message(
    "npu.network/no-address",
    summary="network address not set",
    detail="A single node does not need it.",
    hint=_SET_ADDRESS,
    severity=Severity.WARNING,
    pitfall="P027",
)
NO_ADDRESSES = Message(
    "npu.network/no-addresses",
    summary="network address not set on any NPU",
    detail="A single node does not need it.",
    hint=_SET_ADDRESS,
    severity=Severity.INFO,
    pitfall="P027",
)
JOB_NEEDS_ADDRESSES = Sentence(
    "The job of this environment spans several nodes; their NPUs find each other by these addresses."
)
NOT_IN_FORCE = Message(
    "npu.network/not-in-force",
    summary="{settings} {count:differs|differ} from /etc/hccn.conf: {example}{actual} on the NPU, {wanted} in the file",
    detail="The NPU uses what it has, not what the file says: it was changed later, or the file was not applied after "
    "a reset. NPUs of other nodes look for the NPU where the file says.",
    hint="Decide which is right. To apply the file, use `-cfg recovery`; otherwise correct the file.",
    severity=Severity.WARNING,
    pitfall="P027",
)
NOT_SAVED = Message(
    "npu.network/not-saved",
    summary="{count:network address|network addresses} not in {path}{missing}",
    detail="An address that is set now is gone after a reset or a reboot: the driver then applies the file.",
    hint="Set once more what the NPU has: hccn_tool then writes the file.",
    severity=Severity.INFO,
    pitfall="P027",
)
FILE_MISSING = Sentence(" (file missing)")
ALSO_IN_FILE = Sentence("also {name}_{device} in {path}")
FOR_EXAMPLE = Sentence("for example ")
OF_FILE = Sentence("{value} ({name}_{device} in /etc/hccn.conf)")
NOT_COMPARED = Message(
    "npu.network/not-compared",
    summary="not compared with /etc/hccn.conf: {reason}",
    detail="`{question}` gave no answer; the rest of this check does not depend on it.",
    severity=Severity.INFO,
)
AN_ADDRESS = Sentence("an address")
SAME_ADDRESS = Message(
    "npu.network/duplicate-address",
    summary="network address {address} is also set on {npus}",
    detail="Packets for one NPU reach the other: links break or are never set up.",
    hint="Give each NPU its own address, and correct /etc/hccn.conf.",
    severity=Severity.WARNING,
    pitfall="P027",
)
SAME_ADDRESSES = Message(
    "npu.network/several-duplicate-address",
    summary="each of these network addresses is set on more than one NPU: {address}",
    detail="Packets for one NPU reach the other: links break or are never set up.",
    hint="Give each NPU its own address, and correct /etc/hccn.conf.",
    severity=Severity.WARNING,
    pitfall="P027",
)
UNIQUE_ADDRESS = Sentence("a unique address")
NO_GATEWAY = Message(
    "npu.network/no-gateway",
    summary="gateway not set; other NPUs have one",
    detail="This NPU reaches only NPUs in its own network.",
    hint="Set the gateway of its network.",
    severity=Severity.INFO,
    pitfall="P027",
)
A_GATEWAY = Sentence("a gateway, as {usual}")
UNREACHABLE = Message(
    "npu.network/unreachable",
    summary="network health is {status}",
    detail="The NPU does not reach its detect address: wrong address, gateway or VLAN.",
    hint="Check address, gateway and detect address of the NPU, then the switch port and its VLAN.",
    severity=Severity.WARNING,
    pitfall="P028",
)
ALL_UNREACHABLE = Message(
    "npu.network/all-unreachable",
    summary="network health is {status} on all NPUs",
    detail="The NPUs do not reach their detect addresses: wrong address, gateway or VLAN.",
    hint="Check address, gateway and detect address of the NPUs, then the switch ports and their VLAN.",
    severity=Severity.WARNING,
    pitfall="P028",
)
NO_DETECT_ADDRESS = Message(
    "npu.network/no-detect-address",
    summary="network detect address not set",
    detail="Without a detect address the NPU cannot check its network.",
    hint="Set a detect address: the gateway, or the address of another NPU.",
    severity=Severity.INFO,
    pitfall="P028",
)
NO_DETECT_ADDRESSES = Message(
    "npu.network/no-detect-addresses",
    summary="network detect address not set on any NPU",
    detail="Without a detect address the NPUs cannot check their network.",
    hint="Set a detect address on each NPU: the gateway, or the address of another NPU.",
    severity=Severity.INFO,
    pitfall="P028",
)

# npu.tls

_NO_CONNECTION = "NPUs with different TLS switches cannot connect with each other over their network ports."
_SAME_TLS = "Set the same on all NPUs of all nodes: off, or on with certificates everywhere."
TLS_ON = Message(
    "npu.tls/on-for-some",
    summary="TLS mismatch: on for {npus}, off for the others",
    detail=_NO_CONNECTION,
    hint=_SAME_TLS,
    severity=Severity.WARNING,
    pitfall="P025",
)
TLS_OFF = Message(
    "npu.tls/off-for-some",
    summary="TLS mismatch: off for {npus}, on for the others",
    detail=_NO_CONNECTION,
    hint=_SAME_TLS,
    severity=Severity.WARNING,
    pitfall="P025",
)

# npu.topology

_NEEDS_SERVICE = (
    "Check the kernel log for link errors and reboot once. An NPU that keeps a slow link needs service; until then, "
    "exclude it from jobs."
)
ASYMMETRIC = Message(
    "npu.topology/asymmetric",
    summary="link differs by direction between {count} {count:pair|pairs} of chips: {pairs}",
    detail="The matrix of npu-smi is not symmetric: the driver lists the link for one of the two chips only.",
    hint="Check the kernel log for link errors; a reboot trains the links again.",
    severity=Severity.WARNING,
)
NO_DIRECT_LINK = Message(
    "npu.topology/no-direct-link",
    summary="direct link missing between {count} {count:pair|pairs} of chips: {pairs}",
    detail="These chips communicate over PCIe or across the CPUs; collectives that include them run at that pace.",
    hint=_NEEDS_SERVICE,
    severity=Severity.WARNING,
)
FEW_WITHOUT_DIRECT_LINK = Message(
    "npu.topology/no-direct-link-unlike-most",
    summary="direct link, as most chips here have, missing between {count} {count:pair|pairs} of chips: {pairs}",
    detail="The links of this board are not in the hardware table (as of {as_of}), so most of its chips set the rule. "
    "These chips communicate over PCIe or across the CPUs; collectives that include them run at that pace.",
    hint=_NEEDS_SERVICE,
    severity=Severity.WARNING,
)
