"""The active keys, on the last line; one widget, because that is cheap to draw."""

from __future__ import annotations

from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget


class KeyLine(Widget):
    """Each key with its label; inactive ones are faint. A click works like the key.

    A remark is at the right; in a narrow terminal only the part before its colon.
    """

    DEFAULT_CSS = "KeyLine { dock: bottom; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self, remark: str = "") -> None:
        super().__init__()
        self.auto_links = False
        self._parts: list[tuple[Content, bool]] = []
        self._remark = Content.styled(remark, "bold $warning")

    def on_mount(self) -> None:
        """Follow the active keys."""
        self.screen.bindings_updated_signal.subscribe(self, self._redraw_for)
        self._redraw_for(self.screen)

    def _redraw_for(self, screen: Screen[object]) -> None:
        parts = self._keys(screen)
        if [(one.plain, able) for one, able in parts] != [(one.plain, able) for one, able in self._parts]:
            self._parts = parts
            self.refresh()

    def _keys(self, screen: Screen[object]) -> list[tuple[Content, bool]]:
        parts: dict[str, tuple[Content, bool]] = {}
        for _, binding, enabled, _ in screen.active_bindings.values():
            if binding.show and binding.description:
                key, word = ("bold $accent", "$foreground") if enabled else ("$faint", "$faint")
                label = self.app.label_of(binding)  # type: ignore[attr-defined]
                click = Style.from_meta({"@click": f"app.simulate_key({binding.key!r})"})
                text = Content.assemble((self.app.get_key_display(binding), key), (f" {label}", word))
                parts.setdefault(binding.action, (text.stylize(click), enabled))
        return list(parts.values())

    def render(self) -> Content:
        """The line; in a narrow terminal inactive keys are dropped first."""
        width, shown = self.content_size.width, [text for text, _ in self._parts]
        if remark := self._remark:
            if _length(shown) + remark.cell_length + 4 > width:
                remark = remark.split(":")[0]
            width -= remark.cell_length + 2
        line = self._fitting(shown, width)
        return line + " " * (width + 2 - line.cell_length) + remark if remark else line

    def _fitting(self, shown: list[Content], width: int) -> Content:
        if _length(shown) > width:
            shown = [text for text, enabled in self._parts if enabled]
        while _length(shown) > width and len(shown) > 2:
            del shown[-3]  # Help and Quit stay
        return Content("  ").join(shown)


def _length(parts: list[Content]) -> int:
    return sum(part.cell_length + 2 for part in parts) - 2
