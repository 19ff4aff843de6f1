"""Facts about the host network: interfaces, ports, firewall, and what HCCL uses of them."""
