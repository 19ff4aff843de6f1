"""Imports torch_npu and asks it for its devices; none of them is opened."""

import ctypes

from npudoctor_attempt import attempt, in_words, try_to


def _chip() -> "str | None":
    """The name of the chip by the runtime, which knows it without opening a device."""
    runtime = ctypes.CDLL("libascendcl.so")
    runtime.aclrtGetSocName.restype = ctypes.c_char_p
    name = runtime.aclrtGetSocName()
    return name.decode("utf-8", "replace") if name else None


def _look() -> "dict[str, object]":
    import torch
    import torch_npu

    found = {"version": str(torch_npu.__version__)}  # type: dict[str, object]
    try:
        found["device_count"] = count = int(torch.npu.device_count())
        found["available"] = bool(torch.npu.is_available())
        if hasattr(torch_npu._C, "_npu_get_soc_version"):
            torch_npu._C._npu_get_soc_version()
        name = try_to(_chip)
        found["devices"] = [name] * count if name else []
    except Exception as problem:
        found["devices_error"] = in_words(problem)
    found["cann"] = try_to(lambda: torch.npu.utils.get_cann_version()) or None
    return found


attempt(_look)
