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
    "site",
)


class _ByFramework(dict[str, Message]):
    """Messages by framework; those of a framework that a site added are the messages of stack.site."""

    def __missing__(self, name: str) -> Message:
        return self["site"]


NONE_OF_THE_SITE = Sentence("no framework that the site added is installed in this Python")

NOT_INSTALLED = Sentence("{title} not installed in this Python")
AGAIN = Sentence("again: installs the torch that it requires, where the line before replaced it")
PUBLISHED_ELSEWHERE = Sentence("{title} {release} is published outside the package index: {source}")
NO_PART = Sentence("no {part}")
DRIVER_OF_THE_HOST = Sentence("The driver belongs to the host: upgrade it there.")
REMOVE = Sentence("Remove {package} on this node; {title} runs without it.")
KEEP_RELEASE = Sentence("Smallest change: install {changes}.")
OTHER_RELEASE = Sentence(
    "Smallest change: install {title} {release}, which fits most versions found here, and {changes}."
)
OTHER_RELEASE_ALONE = Sentence("Smallest change: install {title} {release}, which fits the versions found here.")
OR_KEEP = Sentence("{said} Or keep {title} {release}, and install {changes}.")
INSTALL = Sentence("Install {title} {release}, which fits the versions found here.")
INSTALL_AND = Sentence("Install {title} {release}, which fits most versions found here, and {changes}.")
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
        detail="It is a build from source, or older or newer than the tables. What it requires is unknown.",
        hint="Compare with the installation page of this release; the known releases:",
        severity=Severity.INFO,
    )
    for name in _FRAMEWORKS
}
REQUIRED = {
    name: Message(
        f"stack.{name}/required",
        summary="{title} not installed in {python}",
        detail="It was asked for by --for.",
        hint="Install the release that fits the versions found here.",
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
CHIP_NOT_LISTED = {
    name: Message(
        f"stack.{name}/chip-not-listed",
        summary="{title} on {family} chips: not in the tables of {as_of}",
        detail="{named} Whether it runs here is unknown.",
        severity=Severity.INFO,
    )
    for name in _FRAMEWORKS
}
MISMATCH, NOT_LISTED, REQUIRED, MISSING, CHIP, CHIP_SINCE, CHIP_NOT_LISTED = map(
    _ByFramework, (MISMATCH, NOT_LISTED, REQUIRED, MISSING, CHIP, CHIP_SINCE, CHIP_NOT_LISTED)
)
NAMED = Sentence("Its documents name {families}.")
NONE_NAMED = Sentence("The tables name no chip for it.")
NO_NOTE = Sentence("The published list of supported chips does not name it.")

# stack.operators

BUILT_FOR = Message(
    "stack.operators/other-chip",
    summary="Custom operators of {package} were built for {built}; this node has {family} chips",
    detail="The program stops at the start, or an operator fails: error 561103, `does not support opType`.",
    hint="Install the build for this chip (vLLM Ascend has an image for each: -a3, -310p), or build it on this node.",
)
FAMILY_UNKNOWN = Sentence("chip family unknown")
NO_BUILDS = Sentence("no custom operators found")

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

# stack.cache-folders

_IS_WRITTEN = "Jobs write there: {what}. Missing directories are created; {judged} is the last one that exists."
_WRITABLE = "Set {variable} to a directory that this user may write to (a pod: an emptyDir, or another volume)."
CACHE_NOT_WRITABLE = Message(
    "stack.cache-folders/not-writable",
    summary="{variable}: {path} is not writable for the user of process {pid}",
    detail=f"{_IS_WRITTEN} `PermissionError: [Errno 13] Permission denied`.",
    hint=_WRITABLE,
)
CACHE_READ_ONLY = Message(
    "stack.cache-folders/read-only",
    summary="{variable}: {path} is on a read-only file system",
    detail=f"{_IS_WRITTEN} `OSError: [Errno 30] Read-only file system`. Process: {{pid}}.",
    hint=_WRITABLE,
)
CACHE_NO_DIRECTORY = Message(
    "stack.cache-folders/no-directory",
    summary="{variable}: {path} is not a directory",
    detail=f"{_IS_WRITTEN} `NotADirectoryError: [Errno 20]`. Process: {{pid}}.",
    hint=_WRITABLE,
)

# stack.service-port

COMMAND_LINE = Sentence("process {pid}")
DEFAULT_PORT = Sentence("default port {port}")
PORT_TAKEN = Message(
    "stack.service-port/taken",
    summary="Port {port} of {title} (process {pid}) is in use by {owner}",
    detail="The service cannot listen there: `OSError: [Errno 98] Address already in use`. Clients reach the other "
    "program.",
    hint="Start the service on a free port, or end the other program.",
)
PORT_OF_HCCL = Message(
    "stack.service-port/of-hccl",
    summary="Port {port} of {title} (process {pid}) is one of HCCL's host ports",
    detail="HCCL listens on {ports} for the ranks of a job; whichever comes second fails: EJ0003, EI0019, `Address "
    "already in use`.",
    hint="Start the service on a port outside {ports}.",
    severity=Severity.WARNING,
)
