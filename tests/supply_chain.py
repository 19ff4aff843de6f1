"""What npudoctor is made of, and whether it is known to be vulnerable: `python -m tests.supply_chain PYTHON SBOM`.

Writes the components of the environment of PYTHON to the file SBOM (CycloneDX, JSON), then asks for advisories about
all that requirements.lock names. Fails on an advisory. Where no advisory data can be had it says so and does not fail:
without network nobody could build. Requires the dependency group `audit`.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 300.0


def main(words: Sequence[str]) -> int:
    """Write the list of components, audit the lock file; 1 on a known vulnerability."""
    python, sbom = words
    Path(sbom).parent.mkdir(parents=True, exist_ok=True)
    print(bill(python, Path(sbom)))
    status, said = verdict(advisories())
    print(said)
    return status


def bill(python: str, sbom: Path) -> str:
    """Write the list of components of an environment, and say what it holds."""
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--of", "JSON", "-o", str(sbom)]
    subprocess.run([*_tool("cyclonedx_py"), "environment", *options, python], check=True, timeout=LIMIT_S)
    held = json.loads(sbom.read_text(encoding="utf-8"))
    names = sorted(f"{one['name']} {one.get('version', '')}".strip() for one in held["components"])
    return f"{sbom}: {held['bomFormat']} {held['specVersion']}, {len(names)} components: {', '.join(names)}"


def advisories() -> dict[str, Any] | None:
    """What pip-audit answers about the lock file; None where it has no answer."""
    options = ["--disable-pip", "--require-hashes", "-r", str(ROOT / "requirements.lock")]
    argv = [*_tool("pip_audit"), *options, "--format", "json", "--progress-spinner", "off", "--timeout", "20"]
    try:
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=LIMIT_S)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return answer if isinstance(answer, dict) else None


def verdict(answer: dict[str, Any] | None) -> tuple[int, str]:
    """An exit status and one line; pip-audit itself calls what it has no data about free of vulnerabilities."""
    packages = (answer or {}).get("dependencies", [])
    known = [one for one in packages if "vulns" in one]
    found = [f"{one['name']} {one['version']}: {bad['id']}" for one in known for bad in one["vulns"]]
    if found:
        return 1, f"audit failed: {len(found)} known vulnerabilities: {'; '.join(found)}"
    if not known:
        return 0, "NOT AUDITED: advisory data could not be reached"
    unknown = [one["name"] for one in packages if one not in known]
    rest = f"; NOT AUDITED, no data: {', '.join(unknown)}" if unknown else ""
    return 0, f"audit passed: {len(known)} packages without a known vulnerability{rest}"


def _tool(module: str) -> list[str]:
    return [sys.executable, "-m", module]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
