"""Versions as ordered values: CANN, driver (HDK), firmware, the release train of torch_npu, torch and torch_npu.

Two grammars. A *train* counts up to a release and past it: `8.0.T6 < 8.0.RC2.alpha001 < 8.0.RC2 < 8.0.RC2.1 < 8.0.0`,
`25.0.rc1 < 25.0.rc1.1 < 25.0.0 < 25.0.0.1`. A *wheel* is a Python package: `2.7.1rc1 < 2.7.1 < 2.7.1.post4`.
Upper and lower case are the same; `str()` gives the usual spelling, which parses back to an equal value.
"""

from __future__ import annotations

import contextlib
import re
from typing import ClassVar, TypeVar

from npudoctor.records import field, record
from npudoctor.sdk import ParseError

V = TypeVar("V", bound="Version")
Key = tuple[tuple[int, ...], ...]

_TRAIN = r"(?ai)v?(\d{1,9}(?:\.\d{1,9}|\.[a-z]{1,5}\d{1,9}|-[a-z]{1,5}(?:\.\d{1,9})?){2,})"
_STEP = r"(?i)([.-]?)([a-z]*)(?:(\.?)(\d+))?"
_END = (0, 0)
_RANK = {"t": -4, "alpha": -3, "beta": -2, "rc": -1, "b": 1, "tr": 2, "spc": 3, "": 4}
"""What follows the same beginning sorts by this, and by its number; 0 is the end: a release follows its candidates,
and a build, a service pack or a fourth number follows the release."""

_WHEEL = (
    r"(?ai)v?(?P<release>\d{1,9}(?:\.\d{1,9})*)"
    r"(?:[._-]?(?P<pre>alpha|beta|a|b|rc|c)[._-]?(?P<pre_number>\d{0,9}))?"
    r"(?:[._-]?post[._-]?(?P<post>\d{0,9}))?"
    r"(?:[._-]?dev[._-]?(?P<dev>\d{0,9}))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[._-][a-z0-9]+)*))?"
)
_PRE = {"a": "a", "alpha": "a", "b": "b", "beta": "b", "c": "rc", "rc": "rc"}


@record(frozen=True, order=True, repr=False)
class Version:
    """An ordered version: spellings of one version are equal. `text` is the usual spelling."""

    key: Key
    text: str = field(compare=False)

    @classmethod
    def parse(cls: type[V], text: str) -> V:
        """The version that a text names; raises ParseError for anything else."""
        key, usual = cls._understand(text.strip())
        return cls(key, usual)

    @classmethod
    def _understand(cls, text: str) -> tuple[Key, str]:
        raise NotImplementedError

    @property
    def release(self) -> tuple[int, ...]:
        """The leading numbers: (8, 0) for 8.0.RC3, (2, 7, 1) for 2.7.1.post4."""
        return _numbers(re.split(r"\.?[^\d.]", self.text)[0])

    def matches(self, pattern: str) -> bool:
        """Whether a table's `8.5.X`, `2.14.0.*` or `6.0.rc1` means this version; X stands for any rest.

        Raises ParseError for a pattern that is neither a version nor ends with a wildcard.
        """
        wildcard = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})*)\.[xX*]\s*", pattern, re.ASCII)
        if not wildcard:
            return self == self.parse(pattern)
        stem = _numbers(wildcard[1])
        return self.release[: len(stem)] == stem

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class _Train(Version):
    """A version of a release train; `_upper` are the words that it writes in capitals."""

    __slots__ = ()
    _upper: ClassVar[frozenset[str]] = frozenset()
    _steps: ClassVar[int | None] = None

    @classmethod
    def _understand(cls, text: str) -> tuple[Key, str]:
        found = re.fullmatch(_TRAIN, text)
        steps = [step.groups(default="") for step in re.finditer(_STEP, found[1] if found else "") if step[0]]
        if not steps or any(word.lower() not in _RANK for _, word, _, _ in steps):
            raise ParseError(f"{text[:40]!r} is not a version")
        usual = "".join(
            mark + (word.upper() if word.lower() in cls._upper else word.lower()) + dot + number
            for mark, word, dot, number in steps
        )
        if cls._is_community_name(steps[-1]):
            steps.pop()
        key = tuple((_RANK[word.lower()], int(number or 0)) for _, word, _, number in steps)
        return (*key[: cls._steps], _END), usual

    @staticmethod
    def _is_community_name(step: tuple[str, ...]) -> bool:
        """X.beta1 is what the community edition of release X is called; X-beta.1 does come before X."""
        mark, word, _, number = step
        return (mark, word.lower(), number.lstrip("0")) == (".", "beta", "1")


class CannVersion(_Train):
    """A version of CANN: 8.0.0, 8.3.RC1, 8.0.RC2.alpha001, 6.3.RC3.1, 9.1.0-beta.3, 8.0.T6 (a test build)."""

    __slots__ = ()
    _upper = frozenset({"rc", "t"})


class DriverVersion(_Train):
    """A version of the driver package: 25.5.0, 24.1.rc1.b030, 25.0.rc1.1, 22.0.3.1, 20.2.2.spc001."""

    __slots__ = ()


class FirmwareVersion(_Train):
    """A version of the firmware: 7.1.0.11.220. The fifth number is a branch and does not count."""

    __slots__ = ()
    _steps = 4


class _Wheel(Version):
    """A version of a Python package. The local part (`+cpu`, `+git4c901a4`) is kept and never compared."""

    __slots__ = ()

    @property
    def local(self) -> str | None:
        """What follows the plus: `cpu`, `cu121`, `git4c901a4`; None without one."""
        return self.text.partition("+")[2] or None

    @property
    def public(self) -> str:
        """The version without its local part."""
        return self.text.partition("+")[0]

    @property
    def base(self) -> str:
        """The release alone, which torch and torch_npu must share: 2.7.1 for 2.7.1.post4."""
        return ".".join(map(str, self.release))

    @classmethod
    def _understand(cls, text: str) -> tuple[Key, str]:
        found = re.fullmatch(_WHEEL, text)
        if not found:
            raise ParseError(f"{text[:40]!r} is not a version")
        release, post, dev, local = _numbers(found["release"]), found["post"], found["dev"], found["local"]
        pre = _PRE.get((found["pre"] or "").lower(), "")
        candidate = ("a", "b", "rc").index(pre) if pre else -1 if post is None and dev is not None else 3
        pre_number, post_number, dev_number = (int(number or 0) for number in (found["pre_number"], post, dev))
        key = (
            release[: max((place for place, number in enumerate(release, 1) if number), default=1)],
            (candidate, pre_number),
            (-1 if post is None else post_number,),
            (dev is None, dev_number),
        )
        usual = ".".join(map(str, release))
        usual += f"{pre}{pre_number}" if pre else ""
        usual += "" if post is None else f".post{post_number}"
        usual += "" if dev is None else f".dev{dev_number}"
        usual += f"+{local.lower()}" if local else ""
        return key, usual


class TorchVersion(_Wheel):
    """A version of torch: 2.7.1, 2.8.0+cpu, 2.1.0a0+git1a2b3c4."""

    __slots__ = ()


class TorchNpuVersion(_Wheel):
    """A version of torch_npu: 2.7.1.post4, 2.9.0.post1+git4c901a4, 2.5.1.post1.dev20250528."""

    __slots__ = ()


def _numbers(dotted: str) -> tuple[int, ...]:
    return tuple(map(int, dotted.split(".")))


def is_older(version: str, than: str) -> bool:
    """Whether a package's version is older than another; False for one that is not understood."""
    with contextlib.suppress(ParseError):
        return TorchVersion.parse(version) < TorchVersion.parse(than)
    return False
