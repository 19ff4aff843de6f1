"""The smoke run: does every card compute, and do they reach each other."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from npudoctor.tui.screens.node_screen import NodeScreen
from npudoctor.tui.widgets.page import Page, Paragraph


class Smoke(NodeScreen):
    """How to start one."""

    def body(self) -> ComposeResult:
        """One page."""
        with VerticalScroll(id="body", can_focus=False):
            yield Page(id="page")

    def follow(self) -> None:
        """Say how a run is started."""
        self.query_one("#page", Page).show([Paragraph(Content("npudoctor smoke starts a run."))])
