"""npudoctor examines one Ascend NPU node, names the cause of what is broken, and mends it when asked."""

__version__ = "0.1.0"
