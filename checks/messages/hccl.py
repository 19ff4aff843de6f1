"""What the checks of HCCL say."""

from npudoctor.sdk import Message, Sentence, Severity

_CORRECT_HERE = "Correct it for this node, or unset it to let HCCL choose."
_NOT_FOUND = "HCCL finds no interface with it and aborts: EI0001, `set ifname to … but not found in the environment`."
_ADDRESS_NOT_FOUND = "HCCL searches for this address, finds it on no interface, and aborts: EI0001."
_GLOO_FAILS = "Process groups with the gloo backend, or RPC, fail to connect: `connectFullMesh failed`."
_LIKE_HCCL = "Set the same interface as for HCCL, without = or ^."
_DEFAULT = "Correct it, or unset it to use the default, {default}."
_BOTH_OR_NONE = "Several processes on one NPU need both, the same on all ranks. One process on each NPU needs neither."

# Who holds a port, in several checks

HIDDEN_PROCESS = Sentence("a process hidden from this user")
PROCESS = Sentence("process {pid}")
UNNAMED_PROCESS = Sentence("a process (pid {pid})")
NAMED_PROCESS = Sentence("{name} (pid {pid})")
PROCESS_OF_USER = Sentence("{name} (pid {pid}, {user})")
BY_PROCESS = Sentence("by {owner}")
BY_CONNECTION = Sentence("by an outgoing connection of {owner}")
PERHAPS_OF_JOB = Sentence("port {ports} is held by {owner}, which may belong to a running job: {reason}")
ONE_CHIP = Sentence("one chip needs no host ports for HCCL")
NO_CHIP = Sentence("no NPU found")

# Variables with a value that HCCL rejects, in several checks

MEANING_AND_SYMPTOM = Sentence("{meaning} Symptom: {symptom}")
SEVERAL_NODES = Sentence("several nodes")
JOB = Sentence("job")
NONE = Sentence("none")
AND_OTHERS = Sentence("{owner} and {count} more {count:process|processes} of its job")

WHOLE_NAME = Sentence("={name}: only the interface with exactly this name, not {name}1 or {name}.100")

# hccl.base-port

PORTS_INVALID = Message(
    "hccl.base-port/invalid",
    summary="{name} invalid: {problem}",
    detail="HCCL rejects it when the first communicator is created: EI0001, and the job ends.",
    hint="Correct the variable, or unset it to use HCCL's default.",
    pitfall="P048",
)
PORT_LIST = Sentence("ports and ranges such as 60000,60050-60100, or auto")
PORT_FROM_TO = Sentence("a number from {first} to {last}")
AT_MOST = Sentence("at most {most}")
PAST_THE_LAST = Sentence("the {count} ports that this CANN release uses run past {last}")
SYSTEM_PORTS = Message(
    "hccl.base-port/system-ports",
    summary="{name} includes ports below 1024: {ports}",
    detail="Only root may listen below 1024, and system services do.",
    hint="Use ports from 1024 on.",
    severity=Severity.WARNING,
    pitfall="P048",
)
FROM_TO = Sentence("{first} to {last}")
BASE_PORT_OVERRIDDEN = Message(
    "hccl.base-port/overridden",
    summary="{name}={value} has no effect: {other} takes precedence",
    severity=Severity.INFO,
)
BASE_PORT_HIGH = Message(
    "hccl.base-port/high",
    summary="{name}={value} leaves no room for the {count} ports of CANN {release} and later",
    severity=Severity.INFO,
)
NPU_RANGE_MISSING = Message(
    "hccl.base-port/npu-range-missing",
    summary="{other} is set but {name} is not: every process uses port {port} on the NPU network",
    hint=_BOTH_OR_NONE,
    severity=Severity.INFO,
    pitfall="P023",
)
HOST_RANGE_MISSING = Message(
    "hccl.base-port/host-range-missing",
    summary="{other} is set but {name} is not: every process uses HCCL's default ports on the host",
    hint=_BOTH_OR_NONE,
    severity=Severity.INFO,
    pitfall="P023",
)

# hccl.ports-reserved

KERNEL_CHOOSES = Sentence("the kernel chooses HCCL's ports: {source}")
RESERVATION_NOT_NEEDED = Message(
    "hccl.ports-reserved/not-needed",
    summary="HCCL ports {ports} need no reservation: outgoing connections use {ephemeral}",
    severity=Severity.INFO,
)
UNRESERVED = Message(
    "hccl.ports-reserved/unreserved",
    summary="HCCL ports not reserved: {ports}",
    detail="The kernel may hand out these ports to outgoing connections; the next job then cannot bind them (EJ0003, "
    "EI0019).",
    hint="Reserve them, now and for the next boot.",
    severity=Severity.WARNING,
    pitfall="P003",
)
UNRESERVED_FOR_LATER_CANN = Sentence(
    "The kernel may hand out these ports to outgoing connections; the next job then cannot bind them (EJ0003, EI0019). "
    "The documents of this CANN release name 16 ports; those of later releases name 32."
)
RESERVE_FOR_LATER_CANN = Sentence(
    "Reserve {ports}, now and for the next boot: this CANN release uses {certain}, later releases use all of them."
)
RESERVE_AT_START = Sentence(
    "This container has its own network: reserve them when it starts (in a pod: securityContext.sysctls)."
)
RESERVE_ON_HOST = Sentence("This container shares its host's network: reserve them on the host, as root.")
HOST_PORTS = Sentence("HCCL host ports")

# hccl.ports-persistent

SYSCTL_OF_CONTAINER = Sentence("the sysctl files of a container do not apply to its host")
NOTHING_TO_RESERVE = Sentence("HCCL ports need no reservation")
NOT_RESERVED_NOW = Sentence("HCCL ports are not reserved now")
UNREADABLE = Sentence("{path} is not readable by this user")
LOST_AT_REBOOT = Message(
    "hccl.ports-persistent/lost-at-reboot",
    summary="HCCL port reservation lost at reboot: {ports}",
    hint="Write all ports that are to be reserved to a sysctl file that is read last at boot.",
    severity=Severity.WARNING,
    pitfall="P003",
)
RUNNING_KERNEL_ONLY = Sentence("It was made in the running kernel only; no sysctl file that is read at boot has it.")
REJECTED_AT_BOOT = Sentence(
    "Line {line} of {path} is applied last at boot, and the kernel rejects its value: {problem}."
)
OVERRIDDEN_AT_BOOT = Sentence("Line {line} of {path} is applied last at boot and overrides {other}.")
LESS_AT_BOOT = Sentence("Line {line} of {path} is applied last at boot and reserves less than is reserved now.")

OWNER_CHANGED = Message(
    "hccl.ports-persistent/owner-changed",
    summary="{ours} overrides {path}, which now also reserves {ports}",
    detail="Both files are read at boot, and the last one decides. The other one has changed since npudoctor wrote its "
    "own.",
    hint="Write npudoctor's file again: it unites both lists.",
    severity=Severity.WARNING,
    pitfall="P003",
)

# hccl.ports-free

ANOTHER_BASE = Sentence("Give a second job its own base port.")
PORT_TAKEN = Message(
    "hccl.ports-free/taken",
    summary="HCCL {count:port|ports} {ports} in use {how}",
    detail="A job that starts now and needs {count:this port|these ports} fails with EJ0003 or EI0019.",
    hint="End the process if it is left over from a job, or give this job its own base port.",
    pitfall="P003",
)
TAKEN_BY_LIVE_JOB = Sentence("A running job explains this. A second job on this node requires its own ports.")
TAKEN_BY_CONNECTION = Sentence(
    "A job that starts now and needs {count:this port|these ports} fails with EJ0003 or EI0019. The kernel hands out "
    "such ports to outgoing connections unless they are reserved: see hccl.ports-reserved."
)
FREE_PORTS = Sentence("{ports} free")
HELD_PORTS = Sentence("{ports} held by {owner}")

# hccl.firewall

DROPS_LOCAL = Message(
    "hccl.firewall/drops-local",
    summary="Packet filter drops connections to ports {ports}, even within this node",
    detail="Ranks wait for each other until HCCL_CONNECT_TIMEOUT expires: EI0015, EI0006, or `The client socket has "
    "timed out`.",
    hint="Allow these ports, at least from the nodes of the cluster.",
    severity=Severity.WARNING,
    pitfall="P005",
)
DROPS_REMOTE = Message(
    "hccl.firewall/drops-remote",
    summary="Packet filter drops connections from other nodes to ports {ports}",
    detail="Ranks wait for each other until HCCL_CONNECT_TIMEOUT expires: EI0015, EI0006, or `The client socket has "
    "timed out`.",
    hint="Allow these ports, at least from the nodes of the cluster.",
    severity=Severity.WARNING,
    pitfall="P005",
)
OPEN_FOR_SEVERAL_NODES = Sentence("A job on this node alone does not need them; a job with several nodes does.")
ALLOWED_PORTS = Sentence("{ports} allowed")

# hccl.hostname

NAME_IS_LOOPBACK = Message(
    "hccl.hostname/name-is-loopback",
    summary="Host name {name} resolves to {address}, but the job has several nodes",
    detail="If rank 0 is on this host, the other nodes connect to themselves: `The client socket has timed out`.",
    hint="Map the name to an address that the other nodes reach, or set MASTER_ADDR to such an address.",
    severity=Severity.WARNING,
    pitfall="P050",
)
MAP_THE_NAME = Sentence("Map the name to an address that the other nodes reach.")
NETWORK_ADDRESS = Sentence("a network address")
MASTER_IS_LOOPBACK = Message(
    "hccl.hostname/master-is-loopback",
    summary="{name}={value} is this node itself, but the job has several nodes",
    detail="Only the node of rank 0 listens on its own address: `The client socket has timed out`.",
    hint="Set it to the address of rank 0's node on all nodes.",
    pitfall="P050",
)
REACHABLE_ADDRESS = Sentence("an address that all nodes reach")

# hccl.interface

NO_INTERFACE_KNOWN = Sentence("no network interface is known")
INTERFACES = Sentence("network interfaces")
INTERFACE_DOWN = Sentence("{interface} (down)")
WAITS = Sentence("Other nodes cannot reach it and wait for this node until the timeout: EI0006, EI0015.")
WAITS_WITH_SEVERAL = Sentence(
    "Ranks of this node meet on it; a job with several nodes waits until the timeout: EI0006, EI0015."
)
NAME_OVERRIDDEN = Message(
    "hccl.interface/overridden",
    summary="{name}={value} has no effect: {other} takes precedence",
    severity=Severity.INFO,
)
ADDRESS_INVALID = Message(
    "hccl.interface/address-invalid",
    summary="{name}={value} is not an IP address",
    detail=_ADDRESS_NOT_FOUND,
    hint=_CORRECT_HERE,
    pitfall="P016",
)
ADDRESS_ELSEWHERE = Message(
    "hccl.interface/address-elsewhere",
    summary="{name}={value} is not an address of this node",
    detail="HCCL searches for this address, finds it on no interface, and aborts: EI0001. Such a value is often copied "
    "from another node.",
    hint=_CORRECT_HERE,
    pitfall="P016",
)
ADDRESS_DOWN = Message(
    "hccl.interface/address-down",
    summary="{name}={value} belongs to an interface that is down: {interface}",
    detail=_ADDRESS_NOT_FOUND,
    hint=_CORRECT_HERE,
    pitfall="P016",
)
LOOPBACK = Message(
    "hccl.interface/loopback",
    summary="{name}={value} leaves only the loopback interface ({interface})",
    hint=_CORRECT_HERE,
    pitfall="P016",
)
NAME_INVALID = Message(
    "hccl.interface/name-invalid",
    summary="{name}={value} contains no interface name",
    detail=_NOT_FOUND,
    hint=_CORRECT_HERE,
    pitfall="P016",
)
NAME_WITH_BLANK = Message(
    "hccl.interface/name-with-blank",
    summary="{name}={value} starts or ends with a blank",
    detail="HCCL reads the blank as part of the name, finds no such interface, and aborts: EI0001, `set ifname to … "
    "but not found in the environment`.",
    hint=_CORRECT_HERE,
    pitfall="P016",
)
NAME_DOWN = Message(
    "hccl.interface/name-down",
    summary="{name}={value} selects only interfaces that are down or have no address: {interfaces}",
    detail=_NOT_FOUND,
    hint=_CORRECT_HERE,
    pitfall="P016",
)
NAME_ELSEWHERE = Message(
    "hccl.interface/name-elsewhere",
    summary="{name}={value} {count:matches|match} no interface of this node",
    detail=_NOT_FOUND,
    hint=_CORRECT_HERE,
    pitfall="P016",
)
OWN_ADDRESS = Sentence("one address of this node")
ADDRESS_THAT_IS_UP = Sentence("an address of an interface that is up")
INTERFACE_TO_OTHERS = Sentence("an interface that leads to other nodes")
INTERFACE_NAMES = Sentence("eth, =eth0, ^docker or ^=docker0")
INTERFACE_THAT_IS_UP = Sentence("an interface that is up and has an address")
SEVERAL_MATCH = Message(
    "hccl.interface/several-match",
    summary="{name}={value} matches {interfaces}; HCCL uses {interface}",
    severity=Severity.INFO,
)
NO_ADDRESS = Message(
    "hccl.interface/none-up",
    summary="No network interface is up and has an address",
    detail="Ranks meet over the host's network, even those of one node: HCCL aborts without an address.",
    hint="Bring an interface up; the loopback is enough for one node.",
    pitfall="P016",
)
FIRST_BY_NAME = Message(
    "hccl.interface/first-by-name",
    summary="HCCL uses {interface} ({address}): {name} is not set, and this interface is the first by name",
    hint="One node works with any of them. For several nodes set the one that leads to the others.",
    severity=Severity.INFO,
)
OTHER_ROUTE = Message(
    "hccl.interface/other-route",
    summary="HCCL uses {interface} ({address}), but the route to {master} is {route}",
    detail="Several nodes are configured ({source}: {value}) and {name} is not set: HCCL uses the first interface by "
    "name. Ranks then wait for each other until the timeout: EI0006, EI0015.",
    hint="Set the interface that leads to the other nodes.",
    severity=Severity.WARNING,
    pitfall="P016",
)
NO_ROUTE = Message(
    "hccl.interface/no-route",
    summary="HCCL uses {interface} ({address}), but it leads to no other node",
    detail="Several nodes are configured ({source}: {value}) and {name} is not set: HCCL uses the first interface by "
    "name. Ranks then wait for each other until the timeout: EI0006, EI0015.",
    hint="Set the interface that leads to the other nodes.",
    severity=Severity.WARNING,
    pitfall="P016",
)
NAMED_OTHER_ROUTE = Message(
    "hccl.interface/named-other-route",
    summary="{names}={value} {count:names|name} {interface} ({address}), but the route to {master} is {route}",
    detail="Several nodes are configured ({source}: {stated}). Ranks of the other nodes cannot reach this one over "
    "{interface}, or only by a detour: they wait until the timeout, EI0006 or EI0015.",
    hint="Name the interface that leads to the other nodes, or unset the {count:variable|variables}.",
    severity=Severity.WARNING,
    pitfall="P016",
)
GLOO_EMPTY = Message(
    "hccl.interface/gloo-empty",
    summary="{name}={value} contains no interface name",
    detail=_GLOO_FAILS,
    hint=_LIKE_HCCL,
    pitfall="P016",
)
GLOO_DOWN = Message(
    "hccl.interface/gloo-down",
    summary="{name}={value} names an interface that is down or has no address: {interface}",
    detail=_GLOO_FAILS,
    hint=_LIKE_HCCL,
    pitfall="P016",
)
GLOO_ELSEWHERE = Message(
    "hccl.interface/gloo-elsewhere",
    summary="{name}={value} names {interface}: not an interface of this node",
    detail=_GLOO_FAILS,
    hint=_LIKE_HCCL,
    pitfall="P016",
)
GLOO_SIGNS = Message(
    "hccl.interface/gloo-signs",
    summary="{name}={value} names {interface}: only HCCL reads the signs = and ^",
    detail=_GLOO_FAILS,
    hint=_LIKE_HCCL,
    pitfall="P016",
)
GLOO_DIFFERS = Message(
    "hccl.interface/gloo-differs",
    summary="{name}={value}, but HCCL uses {interface}",
    hint="Set both to the interface that leads to the other nodes.",
    severity=Severity.WARNING,
)

# hccl.rank-table

TABLE_NOT_RECORDED = Sentence("the rank table is not in this recording")
ADDRESSES_UNKNOWN = Sentence("the addresses of this host are not known")
TABLE_FOR_HOST = Sentence("this container has its own addresses, so its host cannot be identified in the rank table")
READ_AT_START = Sentence(
    "HCCL reads the table when the first communicator is created: EI0003, EI0004, or links that never come up."
)
UNSET_OR_REWRITE = Sentence("Unset it, so that HCCL negotiates, or have the scheduler write a new one.")
TABLE_UNUSABLE = Message("hccl.rank-table/unusable", summary="{name} not usable: {problem}", pitfall="P047")
TABLE_FILE = Sentence("a regular file with a rank table")
TABLE_STATUS = Message(
    "hccl.rank-table/status", summary="Rank table {path} not complete: its status is {status}", pitfall="P047"
)
TABLE_UNFINISHED = Message(
    "hccl.rank-table/unfinished",
    summary="Rank table {path} not complete: its writer has not finished (status {status})",
    pitfall="P047",
)
TABLE_SERVER_COUNT = Message(
    "hccl.rank-table/server-count",
    summary="Rank table {path} inconsistent: it states {stated} servers but lists {count}",
    pitfall="P047",
)
TABLE_RANK_TWICE = Message(
    "hccl.rank-table/rank-twice", summary="Rank table {path} inconsistent: rank {rank} is listed twice", pitfall="P047"
)
TABLE_RANK_MISSING = Message(
    "hccl.rank-table/rank-missing", summary="Rank table {path} inconsistent: rank {rank} is missing", pitfall="P047"
)
RANKS_ONCE = Sentence("ranks 0 to {last}, each once")
TABLE_WORLD_SIZE = Message(
    "hccl.rank-table/world-size",
    summary="Rank table {path} has {count} {count:rank|ranks}, but WORLD_SIZE is {world}",
    pitfall="P047",
)
TABLE_ADDRESS_TWICE = Message(
    "hccl.rank-table/address-twice",
    summary="Rank table {path} inconsistent: two devices have the address {address}",
    pitfall="P047",
)
ADDRESS_ONCE = Sentence("one device for each address")
TABLE_WITHOUT_HOST = Message(
    "hccl.rank-table/host-missing", summary="Rank table {path} does not list this host", pitfall="P047"
)
TABLE_DEVICE_MISSING = Message(
    "hccl.rank-table/device-missing",
    summary="Rank table {path} lists device {device} for this host: not present here",
    pitfall="P047",
)
DEVICES = Sentence("devices {numbers}")
TABLE_DEVICE_ADDRESS = Message(
    "hccl.rank-table/device-address",
    summary="Rank table {path} gives device {device} the address {address}; this host has {configured}",
    pitfall="P047",
)

# hccl.timeouts

TIMEOUT_INVALID = Message(
    "hccl.timeouts/invalid",
    summary="{name} invalid: {problem}",
    hint=_DEFAULT,
)
EVENT_TOO_SHORT = Message(
    "hccl.timeouts/event-too-short",
    summary="{name}={value} is not longer than {other} ({limit} s)",
    detail="The event times out while HCCL may still wait: a slow rank ends the job with 507046.",
    hint="Make it half a minute longer than {other}, or unset it: torch_npu then derives it.",
    severity=Severity.WARNING,
    pitfall="P082",
)
EVENT_NOT_ENDLESS = Message(
    "hccl.timeouts/event-not-endless",
    summary="{name}={value} is not longer than {other} (no limit)",
    detail="The event times out while HCCL may still wait: a slow rank ends the job with 507046.",
    hint="Set it to 0, or unset it: torch_npu then derives it.",
    severity=Severity.WARNING,
    pitfall="P082",
)
LONGER_THAN = Sentence("more than {limit} s, or 0 for no limit")
NO_LIMIT = Sentence("0 for no limit")
NOT_SET_BUT = Sentence("not set: {default}")
EXEC_LONG = Message(
    "hccl.timeouts/exec-long",
    summary="{name}={value} is longer than the documented default of {other}, {default} s",
    hint="torch_npu waits 30 s longer than {name} without being told. Other programs need {other}.",
    severity=Severity.INFO,
    pitfall="P082",
)

# hccl.buffers

BUFFER_INVALID = Message(
    "hccl.buffers/invalid",
    summary="{name} invalid: {problem}",
    hint=_DEFAULT,
)
SIZE = Sentence("{size_mb:GB}")
BUFFERS_LARGE = Message(
    "hccl.buffers/large",
    summary="HCCL buffers use {total_mb:GB} of {memory_mb:GB} on one chip per communicator: {settings}",
    detail="Each communicator allocates each buffer twice, and a job with model parallelism has several communicators: "
    "out of memory, 207018.",
    hint="Unset what was raised without need.",
    severity=Severity.WARNING,
    pitfall="P083",
)

# hccl.whitelist

WHITELIST_INVALID = Message(
    "hccl.whitelist/invalid",
    summary="{name} invalid: {problem}",
    hint=_DEFAULT,
)
WHITELIST_UNUSABLE = Message(
    "hccl.whitelist/unusable",
    summary="HCCL whitelist enabled, but {name} is not usable: {problem}",
    detail="The communicator is not created: EI0001, or the other hosts refuse the connection.",
    hint="Disable the whitelist, or give HCCL a file with all hosts of the job, the same on each of them.",
    pitfall="P074",
)
WHITELIST_FILE = Sentence('a file {{"host_ip": [...], "device_ip": [...]}}')
NO_FILE = Sentence("no file")
WHITELIST_WITHOUT_HOST = Message(
    "hccl.whitelist/host-missing",
    summary="HCCL whitelist {path} does not list this host ({addresses})",
    detail="The communicator is not created: EI0001, or the other hosts refuse the connection.",
    hint="Disable the whitelist, or give HCCL a file with all hosts of the job, the same on each of them.",
    pitfall="P074",
)
