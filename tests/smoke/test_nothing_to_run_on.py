"""Where no NPU can be used, the refusal names who holds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_busy_node_names_the_holders(tmp_path: Path) -> None:
    node = tmp_path / "busy.toml"
    node.write_text('product = "atlas-800t-a2-910b2"\njob = { ranks = 8, first_pid = 5200 }\n', encoding="utf-8")
    command = [sys.executable, "-m", "npudoctor", "smoke", "--simulate", str(node)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 3
    assert "all NPUs are busy or unhealthy (npu:0 held by python3 (52" in done.stderr
    assert done.stderr.rstrip().endswith("and 5 more)")
