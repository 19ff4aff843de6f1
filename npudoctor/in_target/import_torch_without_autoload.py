"""Imports torch alone: the extensions that it loads by itself, torch_npu among them, are left out."""

import os

import npudoctor_attempt

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
npudoctor_attempt.attempt(npudoctor_attempt.import_torch)
