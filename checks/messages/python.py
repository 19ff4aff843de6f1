"""What the checks of the target Python say."""

from npudoctor.sdk import Message, Sentence, Severity

KNOWN_CAUSE = Sentence("Known cause: {title}. {cause}")
LOAD_FIRST = Sentence(
    "Load {library} before everything else: LD_PRELOAD names it when Python starts, in the shell or service of the job."
)
FIND_AND_LOAD_FIRST = Sentence(
    "Load {library} before everything else: find the one that the job loads, and set LD_PRELOAD to its path."
)
REMOVE_FROM_LIBRARY_PATH = Sentence(
    "LD_LIBRARY_PATH has {entry} first, and {path} does not have {version}. Remove this entry, here and in the file "
    "that sets it."
)
NEWER_IN_ENVIRONMENT = Sentence("{path} of this environment does not have {version}. Install a newer one in it.")
ENVIRONMENT_FIRST = Sentence(
    "{path} does not have {version}. Put the library of the Python environment first, if {own} has a newer one; "
    "otherwise use a newer system or container image."
)
NO_REASON = Sentence("no reason given")
NO_TORCH_NPU = Sentence("torch_npu not installed in this Python")
CANN_VERSION_UNKNOWN = Sentence("version of the CANN in use unknown")

# python.version

TOO_OLD = Message(
    "python.version/too-old",
    summary="Python {python} is too old: torch_npu requires {required} or newer",
    detail="No torch_npu supports this Python. A wheel for another Python does not install, and crashes if forced.",
    hint="Create an environment with a supported Python (most releases support 3.11), or name another one with "
    "--python.",
    pitfall="P095",
)
NOT_FOR_TORCH_NPU = Message(
    "python.version/torch-npu",
    summary="Python {python} is not supported by torch_npu {torch_npu}",
    detail="Supported as of {as_of}: {supported}. A wheel for another Python does not install, and crashes if forced.",
    hint="Create an environment with a supported Python (most releases support 3.11), or name another one with "
    "--python.",
    pitfall="P039",
)
NOT_FOR_CANN = Message(
    "python.version/cann",
    summary="Python {python} is not supported by CANN {cann}",
    detail="Supported as of {as_of}: {supported}. The operator compiler of this CANN does not start with another "
    "Python.",
    hint="Create an environment with a supported Python (most releases support 3.11), or name another one with "
    "--python.",
    pitfall="P039",
)
RANGE = Sentence("{oldest} to {newest}")
OR_NEWER = Sentence("{oldest} or newer")

# python.torch

TORCH_MISSING = Message(
    "python.torch/missing",
    summary="torch not installed in {python}",
    detail="This Python was examined because {why}.",
    hint="If another environment is used for training, name it with --python. Otherwise install torch and a matching "
    "torch_npu.",
)
BOTH_MISSING = Message(
    "python.torch/both-missing",
    summary="torch and torch_npu not installed in {python}",
    detail="This Python was examined because {why}.",
    hint="If another environment is used for training, name it with --python. Otherwise install torch and a matching "
    "torch_npu.",
)
NEW_ENVIRONMENT = Sentence(
    "If another environment is used for training, name it with --python. Otherwise create one: this Python belongs to "
    "the operating system."
)
INSTALL_PAIR = Sentence("If another environment is used for training, name it with --python. Otherwise {change}.")
CUDA_BUILD = Message(
    "python.torch/cuda-build",
    summary="torch {torch} is a CUDA build; torch_npu requires the CPU build",
    detail="If a GPU is found, torch_npu stops with `Two accelerators cannot be used at the same time`. The wheel's "
    "own requirement is violated.",
    hint="Replace it with the CPU build of torch {required}, from the PyTorch CPU wheel index or its mirror.",
    pitfall="P020",
)
CPU_BUILD = Sentence("a CPU build")

# python.torch-npu

TORCH_NPU_MISSING = Message(
    "python.torch-npu/missing",
    summary="torch_npu not installed in {python}",
    detail="torch {torch} is installed, but it cannot use an NPU by itself. This Python was examined because {why}.",
    hint="Install the torch_npu that matches torch and CANN.",
)
INSTALL_RELEASE = Sentence("Install torch_npu {release}, which matches torch {torch} and CANN {cann}.")
CHANGE_FOR_CANN = Sentence("To match CANN {cann}: {change}.")
HIDDEN = Message(
    "python.torch-npu/hidden",
    summary="directory {path} hides the installed torch_npu",
    detail="Python finds this source tree first. It has no compiled part: `No module named torch_npu._C`.",
    hint="Start jobs in another directory, or remove this one from PYTHONPATH.",
    pitfall="P070",
)
COPIES = Message(
    "python.torch-npu/copies",
    summary="{package} installed more than once: Python imports {first}",
    detail="Also installed: {others}. pip changes the copy of its own folder, and the import may stay as it was.",
    hint="Remove the copies that jobs do not use.",
    severity=Severity.INFO,
)
COPY = Sentence("{version} in {folder}")
NOT_COMPILED = Sentence("no compiled part")
NO_TORCH_REQUIRED = Sentence("{framework} requires no torch")
NEITHER_INSTALLED = Sentence("torch and torch_npu not installed in this Python")

# python.pairing

PAIR_MISMATCH = Message(
    "python.pairing/mismatch",
    summary="torch_npu {torch_npu} requires torch {required}; found {torch}",
    detail="{reason} `import torch_npu` fails with an undefined symbol or crashes.",
    hint="Install torch {required}.",
    pitfall="P002",
)
HIDDEN_COPY = Sentence(
    "{package} {version} in {folder} would match, but the copy in {first} is found before it. Remove that copy."
)
REMOVES_COPY = Sentence("removes the copy in {folder}")
SMALLEST_CHANGE = Sentence("Smallest change: {change} ({grounds}).")
REQUIRED_BY_WHEEL = Sentence("Required by the wheel's metadata ({requirement}).")
REQUIRED_BY_TABLE = Sentence("Required by the torch_npu table as of {as_of}.")
REQUIRED_BY_RULE = Sentence("torch_npu X.Y.Z requires torch X.Y.Z.")
TORCH_VERSION_UNKNOWN = Sentence("torch version not understood: {problem}")

# python.cann-pairing

CANN_MISMATCH = Message(
    "python.cann-pairing/mismatch",
    summary="torch_npu {torch_npu} requires CANN {required}; found {cann}",
    detail="Supported as of {as_of} ({source}): {supported}. With another CANN, symbols are missing at import or "
    "operators fail when they are called.",
    hint="Install one of CANN {supported}.",
    pitfall="P012",
)
FROM_TO = Sentence("{oldest} to {newest}")
SMALLEST_CHANGE_OR_CANN = Sentence("Smallest change: {change} ({grounds}). Or install CANN {cann}.")
KEEP_PAIR_OF_FRAMEWORK = Sentence("Install CANN {cann}: torch and torch_npu are those of {grounds}.")
COMPATIBLE = Message(
    "python.cann-pairing/compatible",
    summary="torch_npu {torch_npu} is compatible with CANN {cann}, but paired with {paired}",
    severity=Severity.INFO,
)
UNPAIRED = Message(
    "python.cann-pairing/unpaired",
    summary="torch_npu {torch_npu} is paired with CANN {paired}; nothing is published about {cann}",
    severity=Severity.INFO,
)
NOT_LISTED = Message(
    "python.cann-pairing/not-listed",
    summary="torch_npu {torch_npu} with CANN {cann}: not in the compatibility tables of {as_of}",
    severity=Severity.INFO,
)

# python.packages

PACKAGES_MISSING = Message(
    "python.packages/missing",
    summary="{count:package|packages} of the CANN operator compiler missing: {packages}",
    detail="torch_npu does not declare {count:it|them}, and the error names none: GEInitialize failed, code 500001.",
    hint="Install {count:it|them} in this Python.",
    pitfall="P006",
)
NUMPY_TOO_NEW = Message(
    "python.packages/numpy",
    summary="CANN {cann} requires numpy 1.x; found {numpy}",
    detail="The operator compiler of this CANN fails with numpy 2: error code 500001 at the first operator.",
    hint="Install the last numpy 1.x.",
    pitfall="P007",
)
NUMPY_UNDOCUMENTED = Message(
    "python.packages/numpy-range",
    summary="numpy {numpy} is outside the documented range of CANN {cann} (usually works)",
    severity=Severity.INFO,
)

# python.known-bad

KNOWN_DEFECT = Message(
    "python.known-bad/defect",
    summary="torch_npu {torch_npu} has a known defect: {defect}",
    detail="Fixed in {fixed_in}.",
    hint="Install torch_npu {fixed_in}.",
    severity=Severity.WARNING,
)
FIXED_ON = Sentence("Fixed in {fixed_in}, released {date}.")
INSTALL_OR_OLDER_PYTHON = Sentence("Install torch_npu {fixed_in}, or use Python 3.11.")

# python.conflicts

TORCH_IS_CUDA = Sentence("torch is a CUDA build that installs its own packages")
TRITON_CONFLICT = Message(
    "python.conflicts/triton",
    summary="triton {triton} conflicts with triton-ascend {triton_ascend}",
    detail="Both install the package `triton`. The upstream one finds no driver for the NPU: `0 active drivers`.",
    hint="Uninstall both, then install only triton-ascend, if anything requires triton at all.",
    severity=Severity.WARNING,
    pitfall="P041",
)
TRITON_ALONE = Message(
    "python.conflicts/upstream-triton",
    summary="triton {triton} is installed without triton-ascend",
    detail="The upstream package finds no driver for the NPU: `0 active drivers`.",
    hint="Uninstall it, then install triton-ascend, if anything requires triton at all.",
    severity=Severity.WARNING,
    pitfall="P041",
)
CUDA_ONLY = Message(
    "python.conflicts/cuda-only",
    summary="{package} {version} requires CUDA",
    detail="Its kernels run on CUDA only. A library that finds it may use it and fail on the NPU.",
    hint="Uninstall it, unless a program requires it and uses another implementation on the NPU.",
    severity=Severity.WARNING,
)
CUDA_ONLY_NOTE = Sentence("Its kernels run on CUDA only. {note}")
CUDA_UNUSED = Message(
    "python.conflicts/cuda-unused",
    summary="Packages for CUDA, not used on an NPU: {packages}",
    detail="They take disk space and disturb nothing: libraries that run on the NPU do not import them.",
    hint="Uninstall them, unless a program of yours requires one.",
    severity=Severity.INFO,
)
OF_ANOTHER_TORCH = Message(
    "python.conflicts/another-torch",
    summary="{package} {version} requires torch {required}; found {torch}",
    detail="Its compiled part cannot be loaded, and programs that import it fail: `operator torchvision::nms does not "
    "exist`, or an undefined symbol.",
    hint="Install the {package} that was released with torch {torch}, or uninstall it if no program requires it.",
    severity=Severity.WARNING,
    pitfall="P099",
)
INSTALL_COMPANION = Sentence(
    "Install {package} {release}, which was released with torch {torch}, or uninstall it if no program requires it."
)
REQUIREMENT_NOT_MET = Message(
    "python.conflicts/requirement",
    summary="{framework} {release} requires {requirement}; found {version}",
    detail="The metadata of the installed package says so. It fails when it is imported, or in a call that the other "
    "release does not have.",
    hint="Install the release that it requires, or the release of the framework that was made for this one.",
    severity=Severity.WARNING,
    pitfall="P102",
)
VLLM_WITHOUT_PLUGIN = Message(
    "python.conflicts/vllm-without-plugin",
    summary="vllm {version} without vllm-ascend: vLLM finds no NPU",
    detail="vLLM itself has no part for NPUs; the plug-in was never installed, or was removed later.",
    hint="Install the vLLM Ascend of this vllm; the command shows which.",
    severity=Severity.WARNING,
)
ACCELERATE_TOO_OLD = Message(
    "python.conflicts/accelerate",
    summary="accelerate {version} is too old: NPU support requires {required}",
    hint="Install a newer version.",
    severity=Severity.WARNING,
)

# python.import-torch and python.import-torch-npu

TORCH_FAILED = Message("python.import-torch/failed", summary="import torch failed: {error}")
TORCH_CRASHED = Message("python.import-torch/crashed", summary="import torch crashed with {signal}")
TORCH_TIMED_OUT = Message("python.import-torch/timed-out", summary="import torch timed out after {seconds:.0f} s")
OTHER_VERSION = Message(
    "python.import-torch-npu/other-version",
    summary="import torch_npu loads {loaded}; {installed} is installed",
    detail="Another copy of torch_npu comes first on the path of this Python, or the package was replaced by hand.",
    hint="Check which file is imported, and remove the copy that is not wanted.",
    severity=Severity.INFO,
)
TORCH_NPU_FAILED = Message("python.import-torch-npu/failed", summary="import torch_npu failed: {error}")
TORCH_NPU_CRASHED = Message("python.import-torch-npu/crashed", summary="import torch_npu crashed with {signal}")
TORCH_NPU_TIMED_OUT = Message(
    "python.import-torch-npu/timed-out", summary="import torch_npu timed out after {seconds:.0f} s"
)
THROUGH_TORCH_NPU = Message(
    "python.import-torch/torch-npu",
    summary="import torch fails in torch_npu: {error}",
    detail="torch itself works: with TORCH_DEVICE_BACKEND_AUTOLOAD=0 the same import succeeds.",
    hint="Repair torch_npu. Until then torch can be used without it.",
    pitfall="P064",
)
TORCH_BROKEN = Sentence("torch itself cannot be imported")
CRASHED_IN = Sentence("Crashed in {place}.")
LAST_LINE = Sentence("Last line of output: {line}")
FIND_WHERE_IT_WAITS = Sentence(
    "Find out where it waits (py-spy dump, or the stack in /proc/PID/stack): a driver that does not answer, or a file "
    "system."
)
INSTALL_WHEEL = Sentence(
    "Reinstall the published wheel. One that was built locally may have been built with another GCC."
)
RUN_THE_COMMAND = Sentence("Run the command below to see the whole message.")

# python.devices

IMPORT_FAILS = Sentence("torch_npu cannot be imported")
COUNT_UNKNOWN = Sentence("torch_npu did not report how many devices it finds")
EXPECTED_UNKNOWN = Sentence("number of NPUs unknown: neither npu-smi nor /dev shows them")
TOO_FEW = Message(
    "python.devices/count",
    summary="torch_npu finds {found} of {expected} {expected:device|devices}",
    detail="The runtime counts the devices that the driver gives to this process; npu-smi and /dev show another "
    "number.",
    hint="Compare the device nodes of this user or container with those of the node, and read the reason that the "
    "runtime gives in ~/ascend/log.",
)
CHIPS = Sentence("{count} {count:chip|chips}")
NOT_AVAILABLE = Message(
    "python.devices/not-available",
    summary="torch.npu.is_available() is False with {count} {count:device|devices}",
    hint="Read the reason that the runtime gives in ~/ascend/log.",
)
NO_LIST = Message(
    "python.devices/error",
    summary="torch_npu cannot list its devices: {error}",
    hint="Read the reason that the runtime gives in ~/ascend/log.",
)
THE_DEVICES = Sentence("the devices")
NAME_MISMATCH = Message(
    "python.devices/name-mismatch",
    summary="chip name mismatch: {runtime} in the runtime, {npu_smi} in npu-smi",
    severity=Severity.INFO,
)

# python.device-math

TRY_AGAIN_THEN_RESET = Sentence("Wait one minute and try again. If it fails again, reset the NPU.")
ALL_BUSY = Sentence("all NPUs are busy; nothing was computed")
NOT_STARTED = Message(
    "python.device-math/not-started",
    summary="test computation failed to start: {error}",
    hint="Run it again. If it fails again, take the NPU out of service and collect its logs with msnpureport.",
)
NONE_COMPUTES = Message(
    "python.device-math/all-failed",
    summary="test computation failed on all {count} devices: {error}",
    hint="Run it again. If it fails again, take the NPUs out of service and collect their logs with msnpureport.",
)
WRONG_RESULT = Message(
    "python.device-math/wrong-result",
    summary="wrong result on {count:device|devices} {device}: {error}",
    hint="Run it again. If it fails again, take the NPU out of service and collect its logs with msnpureport.",
)
DEVICE_FAILED = Message(
    "python.device-math/failed",
    summary="test computation failed on {count:device|devices} {device}: {error}",
    hint="Run it again. If it fails again, take the NPU out of service and collect its logs with msnpureport.",
)
RESULT_OF_CPU = Sentence("the result of the CPU")
OFF_BY = Sentence("off by {error}")
