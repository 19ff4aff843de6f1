"""The packages that the CANN operator compiler requires in the Python of the jobs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.python.requirements import find_requirement
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.versions import CannVersion
from npudoctor.sdk import Evidence, Finding, FixOffer, ParseError, check

from ._pairing import is_of_the_system
from .messages import python as messages

_INSTALL_PACKAGES = FixOffer(id="python.install-packages")


@check("python.packages", after=("cann.installed",), requires=(SoftwareStack,), fix="python.install-packages")
def compiler_packages_are_installed(python: PythonEnvironment, cann: Cann) -> Iterator[Finding]:
    """Packages of the CANN operator compiler installed.

    The compiler starts this Python in the background. A missing package, or a numpy that this CANN does not support,
    causes error 500001 at the first operator, and no message names the package.
    """
    layout = knowledge.layout()
    missing = [
        package.distribution
        for package in layout.compiler_packages
        if package.essential and package.distribution not in python.distributions
    ]
    installed = cann.chosen
    version = installed.version if installed is not None else None
    before_numpy_2 = version is not None and version < CannVersion.parse(layout.more["numpy_2_from_cann"])
    if missing:
        new = python.torch is None and python.torch_npu is None and is_of_the_system(python)
        names = " ".join("'numpy<2'" if name == "numpy" and before_numpy_2 else name for name in missing)
        yield messages.PACKAGES_MISSING.finding(
            subject="python",
            packages=missing,
            count=len(missing),
            commands=("npudoctor fix python.create" if new else f"{python.pip} install {names}",),
            evidence=(Evidence(source=python.executable, expected=", ".join(missing), actual="not installed"),),
            fix=FixOffer(id="python.create") if new else _INSTALL_PACKAGES,
        )
    numpy = python.distributions.get("numpy")
    major = re.match(r"\d+", numpy.version) if numpy is not None else None
    if numpy is None or major is None or installed is None:
        return
    if int(major[0]) >= 2 and before_numpy_2:
        yield messages.NUMPY_TOO_NEW.finding(
            subject="python",
            cann=installed.stated,
            numpy=numpy.version,
            commands=(f"{python.pip} install 'numpy<2'",),
            evidence=(Evidence(source=python.executable, expected="numpy < 2", actual=f"numpy {numpy.version}"),),
            fix=_INSTALL_PACKAGES,
        )
    else:
        yield from _documented_range(numpy.version, installed.stated)


def _documented_range(numpy: str, cann: str | None) -> Iterator[Finding]:
    support = knowledge.compatibility().python(cann) if cann else None
    window = find_requirement([f"numpy{support.numpy}"], "numpy") if support is not None and support.numpy else None
    with contextlib.suppress(ParseError):
        if window is not None and not window.accepts(numpy):
            yield messages.NUMPY_UNDOCUMENTED.finding(
                subject="python",
                numpy=numpy,
                cann=cann,
                evidence=(Evidence(source="documents of this CANN", expected=str(window), actual=numpy),),
            )
