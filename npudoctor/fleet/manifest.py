"""The Kubernetes Job that gathers one answer of each node, with nodes, image and claim filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files

from npudoctor.fleet.targets import BadTargets

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def kubernetes(names: Sequence[str], image: str, claim: str) -> str:
    """The Job as YAML; raises BadTargets."""
    if not _IMAGE.fullmatch(image):
        raise BadTargets(f"--image: expected the name of an image, found {image[:80]!r}")
    if not _CLAIM.fullmatch(claim):
        raise BadTargets(f"--claim: expected the name of a PersistentVolumeClaim, found {claim[:80]!r}")
    text = files("npudoctor").joinpath("deploy/kubernetes/fleet-job.yaml").read_text(encoding="utf-8")
    for key in ("completions", "parallelism", "backoffLimit"):
        text = text.replace(f"{key}: 1\n", f"{key}: {len(names)}\n")
    text = text.replace('values: ["NODE"]', f"values: {json.dumps(list(names))}")
    text = text.replace("image: npudoctor\n", f"image: {json.dumps(image)}\n")
    return text.replace("claimName: npudoctor-fleet", f"claimName: {json.dumps(claim)}")
