"""Makes arithmetic on the fake NPU real: every aten kernel of torch_npu runs on CPU tensors over the same memory.

Import after torch and torch_npu, with LD_LIBRARY_PATH on the fake libraries, and call `install()`; without it operators
other than copies and matrix products do nothing. Runs inside the examined Python. It uses private functions of torch's
dispatcher, so it is made for one torch (2.13).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TASK_QUEUE_ENABLE", "0")
torch: Any = importlib.import_module("torch")
importlib.import_module("torch_npu")

_KEPT = (
    *("aten::empty", "aten::as_strided", "aten::view", "aten::_reshape_alias", "aten::set_", "aten::resize_"),
    *("aten::record_stream", "aten::is_pinned", "aten::_pin_memory", "aten::pin_memory", "aten::is_set_to"),
    *("aten::new_empty", "aten::_to_copy", "aten::to.", "aten::_has_compatible", "aten::_is_", "aten::unfold"),
)
"""What shapes tensors or moves them stays as it is."""

_libraries: list[Any] = []
"""torch forgets the kernels of a library that nobody holds."""


def on_cpu(value: Any) -> Any:
    """A CPU tensor over the memory of a fake NPU tensor; the CPU for the NPU; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type != "npu":
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "npu" else value
    storage = value.untyped_storage()
    size = storage.nbytes()
    if size == 0 or value.numel() == 0:
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    raw = torch.frombuffer((ctypes.c_char * size).from_address(storage.data_ptr()), dtype=torch.uint8)
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(raw.untyped_storage(), value.storage_offset(), value.size(), value.stride())


def kernel_of(operator: Any) -> Callable[..., Any]:
    """A kernel that runs the operator on the CPU and hands its results back as NPU tensors."""
    tree = torch.utils._pytree

    def kernel(*args: Any, **named: Any) -> Any:
        flat, shape = tree.tree_flatten((args, named))
        tensors = [value for value in flat if isinstance(value, torch.Tensor)]
        device = next((one.device for one in tensors if one.device.type == "npu"), None)
        device = device or torch.device("npu", torch.npu.current_device())
        here = [on_cpu(value) for value in flat]
        positional, keywords = tree.tree_unflatten(here, shape)
        with torch.no_grad():
            result = operator(*positional, **keywords)
        given = {id(cpu): (npu, cpu) for npu, cpu in zip(flat, here, strict=True) if npu is not cpu}

        def back(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
                return value
            if id(value) in given:
                npu, cpu = given[id(value)]
                if npu.size() != cpu.size():
                    npu.resize_(cpu.size())
                    on_cpu(npu).copy_(cpu)
                return npu
            if any(value is one for one in flat):
                return value
            made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
            if value.numel():
                on_cpu(made).copy_(value)
            return made

        return tree.tree_map(back, result)

    return kernel


def install() -> int:
    """Replace the kernels; how many."""
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in torch._C._dispatch_get_all_op_names():
            known = name.startswith("aten::") and not name.startswith(_KEPT)
            if not known or not torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"):
                continue
            base, _, overload = name.removeprefix("aten::").partition(".")
            with contextlib.suppress(AttributeError, RuntimeError):
                operator = getattr(getattr(torch.ops.aten, base), overload or "default")
                library.impl(name, kernel_of(operator), "PrivateUse1", allow_override=True)
                count += 1
    return count
