"""What the checks of environment variables say."""

from npudoctor.sdk import Message, Sentence, Severity

# env.values

MEANING_AND_SYMPTOM = Sentence("{meaning} Symptom: {symptom}")
INVALID = Message(
    "env.values/invalid",
    summary="{name} invalid: {problem}",
    hint="Correct it, or unset it to use the default.",
)
NOT_ABSOLUTE = Sentence("{path} is not an absolute path")
NOT_FOUND = Sentence("{path} does not exist")
NOT_A_DIRECTORY = Sentence("{path} is not a directory")
NOT_A_FILE = Sentence("{path} is not a regular file")
NOT_READABLE = Sentence("{path} is not readable by this user")
NOT_WRITABLE = Sentence("{path} is not writable by this user")
NOT_SEARCHABLE = Sentence("{path} cannot be entered by this user")
CONFLICT = Message(
    "env.values/conflict",
    summary="{settings}: {problem}",
    detail="Symptom: {effect}",
    hint="Unset what you do not need.",
)
NAME_UNSET = Sentence("{name} not set")

# env.misspelled

MISSPELLED = Message(
    "env.misspelled/name",
    summary="{name} is not read by anything; did you mean {meant}?",
    hint="Rename it to {meant}.",
    severity=Severity.WARNING,
)
RIGHT_ONE_IS_SET = Sentence("Unset it: {meant} is set as well.")

# env.visible-devices

_NAME_CHIPS = "List chips of this node in ascending order, separated by commas only. Or unset it to use all of them."
VISIBLE_FORMAT = Message(
    "env.visible-devices/format",
    summary="{name}={value} is not a list of numbers separated by commas only",
    hint=_NAME_CHIPS,
    pitfall="P011",
)
VISIBLE_TWICE = Message(
    "env.visible-devices/twice", summary="{name}={value} lists a chip twice", hint=_NAME_CHIPS, pitfall="P011"
)
VISIBLE_ORDER = Message(
    "env.visible-devices/order", summary="{name}={value} is not in ascending order", hint=_NAME_CHIPS, pitfall="P011"
)
VISIBLE_MISSING = Message(
    "env.visible-devices/missing",
    summary="{name}={value} lists chip {missing}; {place} has {count} {count:chip|chips}, numbered from 0",
    hint=_NAME_CHIPS,
    pitfall="P011",
)
THIS_NODE = Sentence("this node")
THIS_CONTAINER = Sentence("this container")
CANN_USES = Sentence("CANN uses {used} and silently ignores the rest: EE2002, 107001, or fewer devices than expected.")
CANN_USES_NONE = Sentence("CANN then finds no device at all, or fails with EE2002 or 107001.")
ASCENDING_TO = Sentence("ascending numbers from 0 to {last}")
ASCENDING = Sentence("ascending numbers separated by commas")

# env.debug-leftovers

SLOW = Message(
    "env.debug-leftovers/slow",
    summary="{name}={value} slows jobs down",
    detail="{effect}",
    hint="Unset it when you have finished debugging.",
)
SEVERAL_SLOW = Message(
    "env.debug-leftovers/several",
    summary="debugging variables slow jobs down: {settings}",
    detail="{effects}",
    hint="Unset them when you have finished debugging.",
)
LOUD_MODULES = Sentence("ASCEND_MODULE_LOG_LEVEL sets the log level of {modules} to debug or info.")
EFFECT_AND_DEFAULT = Sentence("{effect} Default: {default}.")

# env.master-port

_ANOTHER_PORT = "Choose another port, the same on every node of the job."
PORT_INVALID = Message(
    "env.master-port/invalid",
    summary="{name}={value} is not a port number",
    hint=_ANOTHER_PORT,
    pitfall="P018",
)
PORT_PRIVILEGED = Message(
    "env.master-port/privileged",
    summary="{name}={value} requires root: ports below 1024 belong to the system",
    hint=_ANOTHER_PORT,
    severity=Severity.WARNING,
    pitfall="P018",
)
PORT_OF_HCCL = Message(
    "env.master-port/hccl-port",
    summary="{name}={value} is one of HCCL's ports {ports}",
    hint=_ANOTHER_PORT,
    pitfall="P018",
)
PORT_EXPECTED = Sentence("1024 to 65535, outside HCCL's range")
PORT_TAKEN = Message(
    "env.master-port/taken",
    summary="{name} {port} in use {how}",
    detail="The next job that needs the port fails with EADDRINUSE, `errno: 98 - Address already in use`.",
    hint="End the process if it is left over from a job, or give the next job another port.",
    pitfall="P018",
)
ANOTHER_PORT = Sentence("Give the next job another port.")
DEFAULT_PORT_TAKEN = Message(
    "env.master-port/default-taken",
    summary="Port {port} (default of {name}) in use {how}",
    detail="The next job that needs the port fails with EADDRINUSE, `errno: 98 - Address already in use`.",
    hint="End the process if it is left over from a job, or give the next job another port.",
    pitfall="P018",
)
TAKEN_BY_LIVE_JOB = Sentence("A running job explains this. A second job on this node requires its own port.")
PORT_FREE = Sentence("{port} free")
PORT_HELD = Sentence("held by {owner}")

# env.launcher-leftovers

SET_BY_ORCHESTRATOR = Sentence("{orchestrator} sets the launcher variables here")
STALE = Message(
    "env.launcher-leftovers/stale",
    summary="Stale launcher variables set: {settings}",
    detail="A launcher sets them for each rank. A script that starts its own ranks reads them as its place in a job: "
    "it waits for ranks that are never started, or two ranks open the same chip (EJ0003).",
    hint="Unset them, and remove them from the profile or image that exports them. Launchers set them themselves.",
    severity=Severity.WARNING,
    pitfall="P024",
)
_RANKS_WAIT = "Ranks wait for each other until the timeout, or two of them open the same chip (107001, EJ0003)."
_LEAVE_TO_LAUNCHER = "Leave these variables to the launcher, and unset those left over from an earlier job."
VALUE_INVALID = Message(
    "env.launcher-leftovers/invalid",
    summary="{name} invalid: {problem}",
    detail=_RANKS_WAIT,
    hint=_LEAVE_TO_LAUNCHER,
    pitfall="P024",
)
RANK_TOO_HIGH = Message(
    "env.launcher-leftovers/rank-too-high",
    summary="{name}={value} is not below {other}={limit}",
    detail=_RANKS_WAIT,
    hint=_LEAVE_TO_LAUNCHER,
    pitfall="P024",
)
LOCAL_WORLD_TOO_LARGE = Message(
    "env.launcher-leftovers/local-world-size",
    summary="{name}={value} is more than {other}={limit}",
    detail=_RANKS_WAIT,
    hint=_LEAVE_TO_LAUNCHER,
    pitfall="P024",
)
MORE_RANKS_THAN_CHIPS = Message(
    "env.launcher-leftovers/more-ranks-than-chips",
    summary="{name}={value}, but only {chips} {chips:chip|chips} for these ranks",
    detail=_RANKS_WAIT,
    hint=_LEAVE_TO_LAUNCHER,
    pitfall="P024",
)
NO_CHIP_FOR_RANK = Message(
    "env.launcher-leftovers/no-chip-for-rank",
    summary="{name}={value}, but only {chips} {chips:chip|chips} for these ranks",
    detail=_RANKS_WAIT,
    hint=_LEAVE_TO_LAUNCHER,
    pitfall="P024",
)
FROM_TO = Sentence("{first} to {last}")
AT_MOST = Sentence("at most {most}")
