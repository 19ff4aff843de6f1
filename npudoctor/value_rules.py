"""What an Annotated type says of its values: `Between`, `Before`, `After` and `Written`.

`npudoctor.data` reads and writes by them, and pydantic by the method of each that it documents for this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from npudoctor.records import record


@record(frozen=True)
class Between:
    """The range of a number, in its Annotated type; neither an infinite number nor NaN is in any range.

    With `above`, `least` itself is not in it.
    """

    least: float
    most: float = math.inf
    above: bool = False

    def has(self, number: float) -> bool:
        """Whether a number is in it."""
        return self.least <= number <= self.most and number < math.inf and not (self.above and number == self.least)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        most = {} if self.most == math.inf else {"le": self.most}
        finite = {} if source is int else {"allow_inf_nan": False}
        return {**handler(source), "gt" if self.above else "ge": self.least, **most, **finite}


@record(frozen=True)
class Before:
    """In an Annotated type: what changes a value before it is fitted."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.change, handler(source))


@record(frozen=True)
class After:
    """In an Annotated type: what changes a value after it was fitted, or raises ValueError."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.change, handler(source))


@record(frozen=True)
class Written:
    """In an Annotated type: what changes a value as it is written to JSON."""

    change: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = handler(source)
        how = core_schema.plain_serializer_function_ser_schema(self.change, return_schema=schema, when_used="json")
        return {**schema, "serialization": how}
