"""A CANN without a device: stub libraries on which the real torch_npu imports, allocates, copies and communicates."""
