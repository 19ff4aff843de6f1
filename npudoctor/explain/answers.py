"""Answers that name no known issue of the node: the job is too large, the program failed by itself, the log says why.

The first failure decides. An exception is the program's own where its kind is one that only code raises, or its text
speaks of shapes, arguments or downloads, and where nothing in it speaks of the device, its software or the system.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from npudoctor import knowledge
from npudoctor.explain import limits
from npudoctor.explain.figures import OTHERS_GIB, Memory
from npudoctor.explain.patterns import Kind
from npudoctor.explain.sightings import Sighting
from npudoctor.records import record

_OWN_KINDS = re.compile(
    r"(?:Key|Value|Index|Name|Type|Assertion|FloatingPoint|UnboundLocal|ZeroDivision|Recursion|Validation"
    r"|ConfigComposition|Override\w{0,16}|MissingConfig|Instantiation|HydraException|KeyNotFound|JSONDecode|UnicodeDecode|HFValidation|EntryNotFound|RepositoryNotFound|GatedRepo|OfflineModeIsEnabled"
    r"|LocalEntryNotFound|RevisionNotFound|Template|Scanner|Parser|Constructor|ConfigAttribute|ConfigKey"
    r"|Dataset\w{0,24}|Safetensor|Safetensors|SafetensorRust|Overflow|Syntax|Indentation|StopIteration)(?:Error|Exception)?"
)
_OWN_TEXTS = re.compile(
    r"size mismatch|shapes? cannot be multiplied|[Ss]hape mismatch|must match the (?:size|existing)|mat1 and mat2"
    r"|Error\(s\) in loading state_dict|must be divisible|expected scalar type|[Tt]okenizer|chat.template"
    r"|huggingface\.co|hf\.co|modelscope|is not a local folder|valid model identifier|config\.json|safetensors"
    r"|does not require grad|element \d{1,9} of tensors|backward through the graph|Unrecognized (?:model|configuration)"
    r"|is invalid for input of size|Boolean value of Tensor|[Ll]oss (?:is|scale|became|exploded)|not divisible by"
    r"|is missing the required|contains? (?:NaN|nan|inf)|object has no attribute"
    r"|No module named '(?:utils?|src|config\w{0,8}|models?|data\w{0,8}|common|tools?|scripts?|my\w{0,12})[.']"
    r"|in-place operation|index \S{1,40} is out of bounds|out of range|Sizes of tensors|stack expects each tensor"
)
_OF_PACKAGES = re.compile(
    r"takes .{1,60} arguments? but|missing \d{1,3} required|unexpected keyword|has no attribute|cannot import name"
    r"|infer_schema|Could not run|unsupported type|got multiple values|abstract (?:class|method)"
)
"""A class or function that is not as its caller expects: a mistake of the program, or packages of other releases."""

_REFUSED_CALL = re.compile(r"\(\) (?:got an unexpected keyword|missing \d|takes )")
_CALLS = ("TypeError", "AttributeError", "ImportError", "NotImplementedError", "RuntimeError", "ValueError")
_DEVICE = re.compile(r"npu|\bacl|hccl|ascend|davinci|cuda|driver|\.so\b", re.IGNORECASE)

_DATA_FILE = re.compile(
    r"\[Errno 2[01]?\] .{1,60}'(?!/(?:dev|etc|proc|sys|var|usr/local/Ascend))[^']{0,400}"
    r"\.(?:jsonl?|csv|tsv|parquet|arrow|txt|ya?ml|safetensors|bin|pth?|model|pkl|np[yz]|png|jpe?g|wav|mp[34]|py|sh)'"
)
"""A file that a program reads itself, which is not there."""

_OF_CONFIGURATION = re.compile(
    r"Undefined dataset \S|attention heads? \(\d{1,6}\) must be divisible|trust_remote_code=True"
    r"|^\d{1,3} validation errors? for (?!.{0,200}(?:ASCEND|Ascend|CANN|HCCL|NPU))"
)
"""What a program says of its own configuration, whatever else its words speak of."""

_VARIABLE = re.compile(r"'[A-Z][A-Z0-9_]{3,}'")
"""The key of a KeyError that is an environment variable."""

_NOT_OWN = re.compile(
    r"(?<![a-z])npu|npu_|\bacl|hccl|\bhccp|\bcann\b|ascend|davinci|torch_npu|device|driver|cuda|nccl|gpu|triton|\batb|mindie|vllm"
    r"|\.so\b|glibc|symbol|memory|shared object|address|connect|socket|\bports?\b|\brank|world.?size"
    r"|time[d ]?.?out|permission"
    r"|no such file|space left|errno|libgomp|kernel|compile|undefined|version|module .{0,80} has no attribute"
    r"|OpNamespace"
    r"|unexpected keyword|cannot import|numpy|np\.|environment variable|backend|CPU\b|stream|/dev/|read-only|TLS",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"not implemented for DT_|dtype support list|only supports? |but got |should be (?:the same|equal|in |greater|less)"
    r"|must be (?:the same|equal|in |greater|less)|not (?:be )?equal|[Ee]xpected .{1,120} (?:but|got)"
    r"|cannot be (?:null|empty)"
)
_REFUSED_SHAPE = re.compile(
    r"\b(?:unsupported|invalid|illegal|wrong)\b.{0,40}\b(?:shape|dim|stride|layout|head)"
    r"|\b(?:shape|dim|stride|layout|head_?(?:dim|num|size))\w{0,8}\b.{0,120}"
    r"\b(?:must|should|not support\w{0,2}|is not|are not|not equal|exceeds?|can be)\b",
    re.IGNORECASE,
)
_IMPOSSIBLE = 8
"""Memories of an NPU in one allocation from which the size is taken for an error of the program."""

_SIGNAL = re.compile(r"(?i:signal) \d{1,2} \(SIG[A-Z]{2,6}\)")

_PARAMETER_CODES = frozenset({"EZ1001", "161001", "161002"})
"""Codes by which an operator refuses its arguments (op_errno.h of opbase)."""


class AnswerKind(str, Enum):
    """What an answer says; a contract of the JSON document."""

    JOB_TOO_LARGE = "job-too-large"
    NOT_THE_ENVIRONMENT = "not-the-environment"
    PROGRAM_OR_PACKAGES = "program-or-packages"
    SAID_BY_THE_LOG = "said-by-the-log"
    NO_FAILURE = "no-failure"
    STOPPED = "stopped"


@record(frozen=True)
class Answer:
    """An answer beside the known issues: its headline, what it rests on, and what to do."""

    kind: AnswerKind
    title: str
    because: str
    steps: tuple[str, ...]
    sighting: Sighting


def of_limit(limit: Sighting) -> Answer:
    """The answer "not the environment" for a limit of a program, a framework or a compiler."""
    title = f"Not the environment: {limit.found.what}"
    steps = (*filter(None, [_place(limit)]), limits.step_for(limit.found.what))
    return Answer(AnswerKind.NOT_THE_ENVIRONMENT, title, limit.quoted, steps, limit)


def of_memory(memories: Sequence[Memory]) -> Answer | None:
    """The answer "job too large", where the numbers show that others hold little of the device's memory."""
    if not memories or any(memory.others > OTHERS_GIB for memory in memories):
        return None
    one = max(memories, key=lambda memory: memory.wanted or 0)
    if one.wanted is not None and one.wanted > _IMPOSSIBLE * one.total:
        title = f"Not the environment: {one.wanted:.0f} GiB are asked for at once, and the NPU has {one.total:.0f}"
        steps = ["Look for a size that the program computes wrongly, or a release of the framework without the error."]
        because = "no job is meant to need so much for one tensor: a shape or an index has a wrong value"
        return Answer(AnswerKind.NOT_THE_ENVIRONMENT, title, because, tuple(steps), one.sighting)
    because = (
        f"of {one.total:.2f} GiB the job itself holds {one.own:.2f} and {one.free:.2f} are free; "
        f"{one.others:.2f} GiB are held beside it, no more than the runtime needs for this job"
    )
    steps = ["Use a smaller batch, sequence length or share of memory for the cache, or more NPUs for the model."]
    if one.is_fragmented:
        steps.insert(0, "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True")
    title = "The job needs more memory than the NPU has; no other process holds it"
    return Answer(AnswerKind.JOB_TOO_LARGE, title, because, tuple(steps), one.sighting)


def refusal_in(seen: Sequence[Sighting]) -> Sighting | None:
    """The first code beside which the log says that an operator refuses an argument, or its shape."""
    for one in seen:
        if one.beside and not one.advice:
            of_type = one.found.what in _PARAMETER_CODES and _REFUSED.search(one.beside)
            if of_type or _REFUSED_SHAPE.search(one.beside):
                return one
    return None


def of_program(exceptions: Sequence[Sighting], seen: Sequence[Sighting]) -> Answer | None:
    """The answer "not the environment": an operator refused an argument, or the first exception is not the node's."""
    refused = refusal_in(seen)
    if refused:
        title = "Not the environment: an operator refused an argument of the program"
        steps: tuple[str, ...] = (
            "Correct the data type or shape in the program, or use a release of the framework that does.",
        )
        return Answer(AnswerKind.NOT_THE_ENVIRONMENT, title, str(refused.beside), steps, refused)
    if exceptions and is_of_packages(exceptions[0].found.what):
        one = exceptions[0]
        title = f"No sign of a fault of the node: the first exception is {one.found.what}"
        because = (
            "a class or function is not as its caller expects: a mistake of the program, or packages whose releases do "
            "not go together"
        )
        steps = (
            *filter(None, [_place(one)]),
            "pip check",
            "npudoctor check stack   # compares the installed releases with the framework's own table",
            "Where the releases fit, take a newer release of the package whose class or function it is.",
        )
        return Answer(AnswerKind.PROGRAM_OR_PACKAGES, title, because, steps, one)
    if exceptions and is_own(exceptions[0].found.what):
        one = exceptions[0]
        title = f"Not the environment: the first exception is {one.found.what}"
        because = "the exception comes from the program's code or data; nothing in it speaks of the NPU or its software"
        steps = (_place(one) or "Read the traceback above this line; the last frame in your own code is the place.",)
        return Answer(AnswerKind.NOT_THE_ENVIRONMENT, title, because, steps, one)
    return None


def of_rank(who: str, one: Sighting) -> Answer:
    """The answer for the exception of the rank that failed first, where all else that the log shows follows from it."""
    title = f"{who[:1].upper()}{who[1:]} failed first: {one.found.what}"
    because = "no known issue explains this exception; what the other ranks report follows from it"
    return Answer(AnswerKind.SAID_BY_THE_LOG, title, because, tuple(filter(None, [_place(one)])), one)


def of_launcher(seen: Sequence[Sighting]) -> Answer | None:
    """The answer for a log that shows only the launcher's report: the rank that it names, and how that ended."""
    one = next((one for one in seen if one.found.kind is Kind.ROOT_CAUSE and one.source.known), None)
    if one is None:
        return None
    told = dict(one.found.values)
    how = _SIGNAL.search(told.get("traceback", ""))
    code = re.match(r"-?\d{1,9}\b", told.get("exitcode", ""))
    ended = f"ended by {how[0]}" if how else f"exit code {code[0] if code else 'unknown'}"
    title = f"{one.source.label[:1].upper()}{one.source.label[1:]} failed first, {ended}, as the launcher says"
    because = "the error of this rank is not in this log; what ended the other ranks follows from it"
    steps = (
        "Read the log of this rank; torchrun writes one for each with --log-dir DIR --redirects 3.",
        "export PYTHONFAULTHANDLER=1   # prints where a program is when a signal ends it",
    )
    return Answer(AnswerKind.SAID_BY_THE_LOG, title, because, steps[: 2 if how else 1], one)


def _place(one: Sighting) -> str | None:
    """The step that names the place in the program, where the traceback shows it."""
    return f"Begin at {one.place}, the last frame of the traceback in your own code." if one.place else None


def of_code(seen: Sequence[Sighting]) -> Answer | None:
    """What the first code means that names no known issue, where nothing else says what failed."""
    table = knowledge.codes()
    for one in seen:
        if one.found.kind is Kind.CODE and one.gravity == 1.0 and not one.advice:
            told = [code for code in table.of_text(one.found.what) if code.meaning and not code.generic]
            if len(told) == 1:
                title = f"The log says: {one.found.what}: {told[0].meaning}"
                return Answer(AnswerKind.SAID_BY_THE_LOG, title, one.quoted, (), one)
    return None


def of_sentence(seen: Sequence[Sighting]) -> Answer | None:
    """The plain sentence beside a generic code, where no known issue explains it."""
    one = next((one for one in seen if one.beside and one.gravity == 1.0 and not one.advice), None)
    if one is None:
        return None
    code = knowledge.errors().code(one.found.what)
    because = (
        f"{one.found.what} wraps many causes ({code.meaning if code else 'a generic code'}); this sentence says more"
    )
    return Answer(AnswerKind.SAID_BY_THE_LOG, f"The log says: {one.beside}", because, (), one)


def is_own(exception: str) -> bool:
    """Whether an exception, `Name: text`, is the program's own."""
    name, _, text = exception.partition(": ")
    if _DATA_FILE.match(text) or _OF_CONFIGURATION.search(text):
        return True
    if _NOT_OWN.search(text) or _OF_PACKAGES.search(text) or _VARIABLE.fullmatch(text):
        return False
    return bool(_OWN_KINDS.fullmatch(name)) or bool(_OWN_TEXTS.search(text))


def is_of_packages(exception: str) -> bool:
    """Whether an exception comes from a call between packages that do not agree, in the program or by release."""
    name, _, text = exception.partition(": ")
    is_device = _DEVICE.search(text) and not _REFUSED_CALL.search(text)
    return name in _CALLS and _OF_PACKAGES.search(text) is not None and not is_device
