"""What the driver's library libdcmi.so says of the chips, as the facts that npu-smi and hccn_tool give too."""
