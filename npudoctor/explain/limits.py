"""Limits of a program, a framework or a compiler: failures that are no fault of the node, and what each says."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LIMITS = (
    (
        re.compile(r"\b(?:ub|Ub|UB|cbuf|cc|l1|L1|l0[abc]|L0[ABC]) overflow,? (?:requires \d|automatically set)"),
        "a kernel needs more memory on the chip than there is",
    ),
    (
        re.compile(
            r"grid should be less than \d|(?:coreDim|blockDim|block_?num)\b.{0,60}(?:invalid|exceed|greater than"
            r"|should be less|can't be)"
        ),
        "a kernel is started with a number of blocks that the runtime does not allow",
    ),
    (
        re.compile(r"undefined reference due to --no-allow-shlib-undefined: (?:test|case|kernel|launch|run)_"),
        "a library lacks a function of the program itself",
    ),
    (
        re.compile(
            r"error: '(?:tt|memref|arith|linalg|scf|tensor|hivm|hfusion)\.[\w.]{1,60}' op (?:failed to verify"
            r"|[Ff]ailed to propagate|[Uu]nsupported)|\berror: failed to legalize "
            r"|LLVM ERROR: (?:unsupported|Cannot select)"
        ),
        "the compiler of kernels does not take what the program's kernel does",
    ),
    (
        re.compile(
            r"\bInvalid_(?:Argument|Input|Attr)_?\w{0,24}\(EZ00[0-3]\d\)|^\W{0,8}EZ00[0-3]\d: "
            r"|is unsupported\. Reason: (?:\[Dynamic shape|The op is dynamic|.{0,60}data ?type DT_)"
        ),
        "an operator refuses the data type, shape or value of an argument",
    ),
    (
        re.compile(
            r"failed to (?:compute cache key|calculate checksum of ref)\b.{0,300}: not found"
            r"|\b(?:COPY|ADD) failed: .{0,200}(?:file not found in build context|no source files|no such file)"
        ),
        "the Dockerfile copies a file that is not in the build context",
    ),
    (re.compile(r"op converter is not implemented"), "the graph mode has no converter for an operator of the model"),
    (
        re.compile(
            r"Cannot run aclop operators during NPU graph capture|Not allow to synchronize captured stream"
            r"|reason=\[stream is captured\]|capture mode does not support this operation"
            r"|in the capture state and the current operation cannot be performed"
        ),
        "the program does during the capture of a graph what a capture does not allow",
    ),
    (
        re.compile(
            r"ops? (?:is|are) not supported on 'nnadapter'"
            r"|kernel (?:with key \(.{1,80}\) of kernel )?`\w{1,60}` is not registered"
        ),
        "the framework has no kernel of this operator for this device",
    ),
    (
        re.compile(r"Expected all tensors to be on the same device, but (?:found|got).{0,80}\bcpu\b"),
        "the program mixes tensors of the NPU and of the CPU",
    ),
    (
        re.compile(
            r"Repo id must be in the form .{0,80}: \\?'/|Invalid repository ID or local directory specified: \\?'/"
            r"|Incorrect path_or_model_id: \\?'/"
        ),
        "the folder of the model does not exist where the program looks for it",
    ),
    (
        re.compile(r"Torch not compiled with CUDA enabled"),
        "the program asks torch for CUDA, or transformers is newer than this torch allows for an NPU",
    ),
    (
        re.compile(r"\berror: (?:unrecognized arguments|the following arguments are required|argument -)"),
        "the command refuses an argument: a misspelled one, or one of another release",
    ),
    (
        re.compile(
            r"can't convert npu(?::\d{1,3})? device type tensor|Input type \(.{1,60}\) and (?:bias|weight) type"
        ),
        "the program mixes tensors of other types or devices",
    ),
    (
        re.compile(r"torch\._dynamo\.exc\.|torch\._inductor\.exc\.InductorError(?!: InvalidCxxCompiler)"),
        "the compiler of graphs in torch fails on the program",
    ),
    (
        re.compile(
            r"^(?!.{0,200}(?:site-packages|dist-packages|/Ascend/|/cann-|triton/backends))\S{1,200}"
            r"\.(?:c|cc|cpp|cxx|cce|asc|h|hpp):\d{1,6}:\d{1,5}: error: (?:expected [^ ]|no matching function"
            r"|static assertion|redefinition of|conflicting types|cannot convert|invalid operands"
            r"|use of undeclared identifier|no member named '\w{1,80}' in '(?!std|c10|at|torch)"
            r"|.{0,120}(?:has no member named|was not declared in this scope|is not a member of .(?!std)))"
            r"|^\S{1,200}\.go:\d{1,6}:\d{1,5}: (?:undefined: |.{1,160}(?:declared|imported) and not used)"
            r"|^\s{0,8}error\[E0(?!463|514|554|658)\d{3}\]: "
        ),
        "the compiler refuses the source: an error of the program, or headers of another release",
    ),
    (
        re.compile(
            r"\bTOMLDecodeError: |configuration error: `\S{1,60}` |\berror in \S{1,60} setup command: "
            r"|Multiple top-level packages discovered in a flat-layout"
        ),
        "the project's own description of its build has an error",
    ),
    (
        re.compile(r"daemonic processes are not allowed to have children"),
        "the program starts operators, whose compiler starts processes, in a daemonic process",
    ),
    (
        re.compile(r"ACL_ERROR_REPEAT_INITIALIZE|acl ?[iI]nit failed, \w{0,12} ?=? ?100002\b"),
        "two parts of one process initialise ACL, which allows one initialisation",
    ),
    (
        re.compile(r"\bpython[\d.]{0,5}: can't (?:open|find) (?:file|'__main__' module in) "),
        "the script that is to be run does not exist",
    ),
    (
        re.compile(
            r"^Could not override '|Key '[^']{1,80}' is not in struct|MissingMandatoryValue|Missing mandatory value"
        ),
        "the configuration has no such key, or no value for it",
    ),
    (
        re.compile(r"undefined reference to .{1,200}std::__cxx11::"),
        "the program is compiled with another C++ ABI than a library that it is linked with",
    ),
    (
        re.compile(
            r"^(?!.{0,200}(?:conftest|/tmp/cc\w{6}\.o|cmTC_|CheckSymbolExists|CheckFunctionExists)).{0,400}"
            r"undefined reference to (?!.{0,4}(?:acl|rt|ge|gert|[Hh]ccl|std|c10|at|torch|caffe2|atb|[Mm]ki|AsdOps"
            r"|AtbOps|op_api|drv|hal|ProfMgr|dsmi|dcmi|devmm|optiling|platform_ascendc|at_npu|__cxa|_ZS)"
            r"(?:[A-Z]|_|::))(?!.{0,160}@)|@GFORTRAN"
        ),
        "the linker does not find a function or a library that the program is linked with",
    ),
    (
        re.compile(r"cannot find -lnpu_hccl"),
        "the option WITH_ASCEND of Paddle is obsolete: its part for NPUs is PaddleCustomDevice",
    ),
    (
        re.compile(r"not enough slots available in the system"),
        "mpirun is asked for more processes than the hosts have slots",
    ),
    (
        re.compile(r"Unknown device for graph fuser"),
        "torch.jit has no fuser for NPUs: the program uses torch.jit.script",
    ),
    (
        re.compile(r"(?:Out|In)put size mismatch\. index"),
        "an operator is given a buffer of another size than it expects",
    ),
    (
        re.compile(
            r"cannot import name '\w{1,80}' from 'torch\.(?:cuda|backends\.cud)|module 'torch\.(?:cuda|backends\.cud)"
            r"[\w.]{0,60}' has no attribute"
        ),
        "the program uses a part of torch that exists with CUDA only",
    ),
    (
        re.compile(
            r"\[ParamChecker::\w{1,40}\]|ERR: model config\.json file is invalid"
            r"|\bFailed to open model config\.json file"
            r"|\bThe type of param \S{1,60} should be (?:array|string|bool|object|u?int32_t|size_t),? but "
            r"|\bThe value of param \S{1,60} for \S{1,12} ?is invalid"
            r"|\bvalue of (?:'npuMemSize'|modelParam\.|ScheduleParam\.|maxPrefillTokens should)"
            r"|\bBackend type only supports atb\b|\btemplate(?:Type|Name) must be Standard"
            r"|\binferMode should be standard|should be one modelParam for Standard"
            r"|\bmax(?:N|PreemptCount) cannot be set greater than maxBatch|\bConfigManager: Get config path failed"
            r"|\bConfigManager: Invalid config path\.|\bConfigManager [Ii]nit exception: "
            r"|\bJSON error in ConfigManager\b|Json file is invalid\. Please check json format"
        ),
        "MindIE refuses a value of its configuration (config.json)",
    ),
    (
        re.compile(
            r"\bserverConfig_\.\w{1,40} (?:size must|file not)|\b\w{0,20}[tT]ls(?:Ca|Crl)Files? init error"
            r"|\bBackend inter tls config is invalid|\bFailed to init tls cfg(?:\s*$|\. \[Backend)"
            r"|\b(?:Business|Management|Metrics) Http ssl Initialize failed"
        ),
        "MindIE's https is on, and its certificates are missing or not valid",
    ),
)
"""Limits of a program, a framework or a compiler, and what each says: no fault of the node."""

_STEPS = {
    "the folder of the model does not exist where the program looks for it": (
        "Correct the path; in a container, mount the folder there (docker run -v)."
    ),
    "the program asks torch for CUDA, or transformers is newer than this torch allows for an NPU": (
        "Ask torch for the device npu and import torch_npu first, or import torch_npu.contrib.transfer_to_npu, which "
        "puts the NPU in place of CUDA."
    ),
    "the command refuses an argument: a misspelled one, or one of another release": (
        "Compare the command with the --help of the installed release."
    ),
    "the Dockerfile copies a file that is not in the build context": (
        "Compare the path with the build context, and with the patterns in .dockerignore."
    ),
    "an operator refuses the data type, shape or value of an argument": (
        "Correct the argument that the message names, or take a release of the framework that does."
    ),
    "the script that is to be run does not exist": "Correct the path, or start it in the folder of the script.",
    "the configuration has no such key, or no value for it": "Correct the key, or add it to the configuration.",
    "the program is compiled with another C++ ABI than a library that it is linked with": (
        "Compile it with -D_GLIBCXX_USE_CXX11_ABI=0, or 1 where the library has std::__cxx11 in its names."
    ),
    "the linker does not find a function or a library that the program is linked with": (
        "Link with the library that has the function (-L FOLDER -l NAME); for one that another library requires, add "
        "-Wl,-rpath-link,FOLDER."
    ),
    "the option WITH_ASCEND of Paddle is obsolete: its part for NPUs is PaddleCustomDevice": (
        "Build without WITH_ASCEND, and build the plug-in backends/npu of PaddleCustomDevice."
    ),
    "mpirun is asked for more processes than the hosts have slots": (
        "Ask for fewer, name slots=N for each host in the hostfile, or add --oversubscribe."
    ),
    "MindIE refuses a value of its configuration (config.json)": (
        "Correct the field that the message names, there or in the model's own config.json; "
        "`python3 -m json.tool config.json` shows where a file is no JSON."
    ),
    "MindIE's https is on, and its certificates are missing or not valid": (
        "Put the certificates where config.json says, or set httpsEnabled, interCommTLSEnabled and interNodeTLSEnabled "
        "to false in a network that you trust."
    ),
}
_STEP = "Another option or size that avoids it, or a release of the program or framework without this limit."

WORDS = (
    "shlib-undefined: ",
    "EZ00",
    "is unsupported. Reason: ",
    "ailed to compute cache",
    "ailed to calculate checksum",
    "COPY failed: ",
    "ADD failed: ",
    " overflow",
    "grid should be less than",
    "coreDim",
    "blockDim",
    "block_num",
    "blocknum",
    "op converter is not",
    "' op ",
    "error: failed to legalize",
    "LLVM ERROR: ",
    "graph capture",
    "captured stream",
    "stream is captured",
    "capture mode does not",
    "in the capture state",
    "on 'nnadapter'",
    "` is not registered",
    "put size mismatch",
    "compiled with CUDA",
    "Repo id must be",
    "ID or local directory",
    "path_or_model_id",
    "t convert npu",
    "Input type (",
    "torch._dynamo.exc.",
    "torch._inductor.exc.",
    "error: unrecognized arg",
    "error: the following arg",
    "error: argument -",
    ": error: ",
    ": undefined: ",
    "declared and not used",
    "imported and not used",
    "TOMLDecodeError",
    "configuration error: `",
    " setup command: ",
    "flat-layout",
    "error[E",
    "to be on the same device",
    "daemonic processes",
    "for graph fuser",
    ": can't ",
    "undefined reference to ",
    "not enough slots ",
    "-lnpu_hccl",
    "Could not override '",
    "is not in struct",
    "MissingMandatoryValue",
    "Missing mandatory",
    "REPEAT_INITIALIZE",
    "nit failed, ",
    "from 'torch.",
    "module 'torch.",
    "ParamChecker::",
    " model config.json file",
    " of param ",
    "e of 'npuMemSize'",
    "e of modelParam.",
    "e of ScheduleParam.",
    "e of maxPrefillTokens ",
    "Backend type only",
    " must be Standard",
    "inferMode should be",
    "modelParam for Standard",
    "cannot be set greater",
    "ConfigManager",
    "Json file is invalid",
    "serverConfig_.",
    " init error",
    "inter tls config",
    "init tls cfg",
    "Http ssl Init",
)
"""Words of which every line with a limit has one, for the prefilter."""


def step_for(said: str) -> str:
    """What to do about a limit."""
    return _STEPS.get(said, _STEP)


def limits_in(line: str) -> Iterator[tuple[str, str, int]]:
    """The limits that a line shows: the expression, what it says, and where in the line it begins."""
    if any(word in line for word in WORDS):
        for pattern, said in _LIMITS:
            if match := pattern.search(line):
                yield pattern.pattern, said, match.start()
