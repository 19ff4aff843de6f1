"""What the checks of frameworks say. Each framework has a check of its own, so each message is a table by framework."""

from npudoctor.sdk import Message, Sentence, Severity

_FRAMEWORKS = (
    "vllm-ascend",
    "verl",
    "llamafactory",
    "sglang",
    "lmdeploy",
    "mindspore",
    "mindie",
    "mindspeed",
    "ms-swift",
)

NOT_INSTALLED = Sentence("{title} not installed in this Python")
AGAIN = Sentence("again: installs the torch that it requires, where the line before replaced it")
PUBLISHED_ELSEWHERE = Sentence("{title} {release} is published outside the package index: {source}")
NO_PART = Sentence("no {part}")
DRIVER_OF_THE_HOST = Sentence("The driver belongs to the host: upgrade it there.")
REMOVE = Sentence("Remove {package} on this node; {title} runs without it.")
KEEP_RELEASE = Sentence("Smallest change: install {changes}.")
OTHER_RELEASE = Sentence(
    "Smallest change: install {title} {release}, which was published for most versions found here, and {changes}."
)
OTHER_RELEASE_ALONE = Sentence(
    "Smallest change: install {title} {release}, which was published for the versions found here."
)
INSTALL = Sentence("Install {title} {release}, which was published for the versions found here.")
INSTALL_AND = Sentence("Install {title} {release}, which was published for most versions found here, and {changes}.")
INSTALL_ELSEWHERE = Sentence("Install {what} from its vendor, who publishes it outside the package index: {source}")
INSTALL_ANY = Sentence("Install {title} as its documentation says; the tables name no single release: {source}")
PART = Sentence("{part} {version}")
PUBLISHED_SET = Sentence("the set published for {title} {release}")
MISSING_PART = Sentence("not installed")

MISMATCH = {
    name: Message(
        f"stack.{name}/mismatch",
        summary="{title} {release} requires {required}; found {found}",
        detail="Published together as of {as_of}: {published}. With other releases, imports fail or operators are "
        "missing when the model is loaded.",
        hint="Install the published set.",
    )
    for name in _FRAMEWORKS
}
MISSING = {
    name: Message(
        f"stack.{name}/missing",
        summary="{title} {release} requires {required}; not installed",
        detail="Published together as of {as_of}: {published}. Without a part, imports fail or operators are missing "
        "when the model is loaded.",
        hint="Install the published set.",
    )
    for name in _FRAMEWORKS
}
NOT_LISTED = {
    name: Message(
        f"stack.{name}/not-listed",
        summary="{title} {release}: not in the tables of {as_of}",
        detail="It is a build from source, or newer than the tables. The releases that it requires are unknown.",
        severity=Severity.INFO,
    )
    for name in _FRAMEWORKS
}
REQUIRED = {
    name: Message(
        f"stack.{name}/required",
        summary="{title} not installed in {python}",
        detail="It was asked for by --for.",
        hint="Install the release that was published for the versions found here.",
    )
    for name in _FRAMEWORKS
}
CHIP = {
    name: Message(
        f"stack.{name}/chip",
        summary="{package} does not support {family} chips",
        detail="{note}",
        hint="Use another framework on this node, or a node with a supported chip.",
    )
    for name in _FRAMEWORKS
}
CHIP_SINCE = {
    name: Message(
        f"stack.{name}/chip-since",
        summary="{package} {release} does not support {family} chips: {since} or newer required",
        detail="{note}",
        hint="Install {package} {since} or newer.",
    )
    for name in _FRAMEWORKS
}
NO_NOTE = Sentence("The published list of supported chips does not name it.")

# stack.operators

BUILT_FOR = Message(
    "stack.operators/other-chip",
    summary="Custom operators of {package} were built for {built}; this node has {family} chips",
    detail="The program stops at the start, or an operator fails: error 561103, `does not support opType`.",
    hint="Install the build for this chip (vLLM Ascend has an image for each: -a3, -310p), or build it on this node.",
)
FAMILY_UNKNOWN = Sentence("chip family unknown")
NO_BUILDS = Sentence("no framework with operators of its own found")

# stack.working-folder

NOT_WRITABLE = Message(
    "stack.working-folder/not-writable",
    summary="Working directory {path} of process {pid} is not writable for its user",
    detail="The operator compiler of CANN writes kernel_meta there: `PermissionError: [Errno 13] Permission denied: "
    "'kernel_meta'`.",
    hint="Start the job in a writable directory, or set ASCEND_WORK_PATH to one.",
)
READ_ONLY = Message(
    "stack.working-folder/read-only",
    summary="Working directory {path} of process {pid} is on a read-only file system",
    detail="The operator compiler of CANN writes kernel_meta there: `OSError: [Errno 30] Read-only file system: "
    "'kernel_meta'`.",
    hint="Start the job in a writable directory, or set ASCEND_WORK_PATH to one.",
)
_OR_ELSEWHERE = "or set ASCEND_WORK_PATH to a writable one."
FOLDER_OF = {
    "HOST": Sentence(f"Start the job in a writable directory (cd; WorkingDirectory= of a service), {_OR_ELSEWHERE}"),
    "CONTAINER": Sentence(f"Start the container with a writable --workdir, {_OR_ELSEWHERE}"),
    "POD": Sentence(f"Name a writable directory as workingDir: of the pod's container, {_OR_ELSEWHERE}"),
    "NOTEBOOK": Sentence(f"Change to a writable directory before the job starts, {_OR_ELSEWHERE}"),
}
WRITES_ELSEWHERE = Sentence("{variable} names another directory")

# stack.service-port

COMMAND_LINE = Sentence("command line of process {pid}")
PORT_TAKEN = Message(
    "stack.service-port/taken",
    summary="Port {port} of {title} (process {pid}) is in use by {owner}",
    detail="The service cannot listen there: `OSError: [Errno 98] Address already in use`. Clients reach the other "
    "program.",
    hint="Start the service with a free --port, or end the other program.",
)
PORT_OF_HCCL = Message(
    "stack.service-port/of-hccl",
    summary="Port {port} of {title} (process {pid}) is one of HCCL's host ports",
    detail="HCCL listens on {ports} for the ranks of a job; whichever comes second fails: EJ0003, EI0019, `Address "
    "already in use`.",
    hint="Start the service with a --port outside {ports}.",
    severity=Severity.WARNING,
)
