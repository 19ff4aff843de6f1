"""npudoctor finds out what is wrong with an Ascend NPU node, why, and fixes it on request."""

__version__ = "0.1.0"
