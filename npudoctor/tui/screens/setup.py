"""The dialog that sets up a node: a folder, what will run, which set, the plan, and what can be installed from here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Input, OptionList
from textual.widgets.option_list import Option

from npudoctor.control_characters import escape
from npudoctor.records import replace
from npudoctor.tui.model import setting_up
from npudoctor.tui.model.session import CannotPlan
from npudoctor.tui.model.setting_up import Answers
from npudoctor.tui.screens.copy import offer
from npudoctor.tui.screens.fix import open_job
from npudoctor.tui.screens.follow import Follow
from npudoctor.tui.widgets.page import Page, Paragraph

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp

LICENCE = "I accept the licence of the vendor's packages"
SERVICE = (
    ("Slurm or Kubernetes", "drained without jobs, or cordoned: npudoctor asks it before each step"),
    ("no scheduler", "I confirm that no scheduler manages this node"),
)
REBOOT = (
    "npudoctor reboots nothing: where the last line asks for it, you reboot the node, and the first entry here "
    "verifies it within 24 hours. It drains nothing, passes no --force, and rolls nothing back. Installing accepts the "
    "vendor's licence."
)
_HINTS = {
    "service": "↑ ↓ choose · enter goes on · esc goes back",
    "stop": "enter goes on · esc goes back",
    "host": "enter begins · esc goes back",
    "folder": "tab completes · enter goes on · esc closes",
    "purpose": "↑ ↓ choose · enter goes on · esc goes back",
    "sets": "↑ ↓ choose · enter goes on · esc goes back",
    "wait": "esc closes",
    "plan": "↑ ↓ scroll · ← → choose · esc goes back",
}


class FolderField(Input):
    """A path whose names are completed by tab."""

    def on_key(self, event: events.Key) -> None:
        """Complete instead of going on to the next widget."""
        if event.key == "tab":
            event.stop()
            event.prevent_default()
            cast("SetUp", self.screen).complete(self.value)


class Licence(Checkbox):
    """Whether the licence is accepted, shown by a mark and not by colour alone."""

    BUTTON_INNER = " "

    def watch_value(self) -> None:
        """Draw the mark."""
        self.BUTTON_INNER = "✔" if self.value else " "
        super().watch_value()


class SetUp(ModalScreen[None]):
    """Asks one question after the other; changes nothing itself."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("pagedown,space", "scroll(10)", "Page down", show=False),
        Binding("pageup,b", "scroll(-10)", "Page up", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
        Binding("left", "app.focus_previous", "Previous", show=False),
    ]

    def __init__(self, folder: str = "") -> None:
        super().__init__()
        self._answers = Answers(folder=folder)
        self._stage = "folder"
        self._found: setting_up.SetupPlan | None = None
        self._asked = 0

    @property
    def _doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    def compose(self) -> ComposeResult:
        """Question, field and answers, of which each stage shows its own."""
        with Vertical(classes="dialog") as box:
            box.border_title = setting_up.ENTRY
            yield Page(id="question")
            yield FolderField(self._answers.folder, placeholder="/path/of/the/packages", id="folder")
            yield Page(id="names")
            yield Input(placeholder="names with blanks between them; empty: none", id="stop")
            yield Input(placeholder="type the name of this host to begin", id="host")
            yield OptionList(id="answers", compact=True)
            with VerticalScroll(id="preview", can_focus=False):
                yield Page(id="lines")
            yield Licence(LICENCE, id="licence", compact=True)
            with Horizontal(classes="buttons"):
                yield Button("Install CANN", id="go", classes="key", disabled=True)
                yield Button("Install driver", id="driver", classes="key")
                yield Button("Copy a command", id="copy", classes="key")
                yield Button("Close", id="close", classes="key")

    def on_mount(self) -> None:
        """Ask for the folder."""
        self._ask_folder()

    # Stages

    def _show(self, stage: str, question: str, *widgets: str, problem: str = "") -> None:
        self._stage = stage
        for name in ("#folder", "#stop", "#host", "#names", "#answers", "#preview", "#licence", ".buttons"):
            self.query_one(name).display = name in widgets
        said = [Paragraph(Content.styled(question, "bold"))]
        said += [Paragraph(Content.styled(problem, "bold $error"), "✖ ", "  ")] if problem else []
        self.query_one("#question", Page).show(said)
        self.query_one(".dialog").border_subtitle = _HINTS[stage]

    def _ask_folder(self, problem: str = "") -> None:
        self._asked += 1  # an answer that is on its way is no longer waited for
        self._show("folder", "In which folder are the vendor's packages?", "#folder", "#names", problem=problem)
        self.query_one("#names", Page).show(())
        self.query_one("#folder").focus()

    def _ask(self, stage: str, question: str, options: list[tuple[str, str]], chosen: int = 0) -> None:
        self._show(stage, question, "#answers")
        listed = self.query_one("#answers", OptionList)
        listed.set_options(Option(Content.assemble((text, "bold"), f"  {more}")) for text, more in options)
        listed.highlighted = chosen
        listed.focus()

    def _ask_purpose(self) -> None:
        self._asked += 1
        rows = [(name, about) for name, about, _ in setting_up.PURPOSES]
        self._ask("purpose", "What will run on this node?", rows, self._answers.purpose)

    def _plan(self) -> None:
        self._asked += 1
        self._show("wait", "Reading the packages and checking this node; a kernel module is built on trial …")
        self._doctor.beside(partial(self._make_plan, self._asked, self._answers))

    def _make_plan(self, asked: int, answers: Answers) -> None:
        """In a thread: the plan, handed to the screen if it still waits for it."""
        doctor = self._doctor
        try:
            found = setting_up.plan(doctor.session, answers)
        except CannotPlan as why:
            doctor.tell(self._not_planned, asked, escape(str(why)))
        else:
            doctor.tell(self._take, asked, found)

    def _not_planned(self, asked: int, problem: str) -> None:
        if asked == self._asked and self.is_attached:
            self._ask_folder(problem)

    def _take(self, asked: int, found: setting_up.SetupPlan) -> None:
        if asked != self._asked or not self.is_attached:
            return
        self._found = found
        if len(found.sets) > 1:
            rows = [(escape(expected), "") for _, expected in found.choices]
            self._ask("sets", f"{len(rows)} sets of these packages match each other; which one?", rows)
        else:
            self._show_plan(found)

    def _show_plan(self, found: setting_up.SetupPlan) -> None:
        why_not = setting_up.obstacle(found)
        ready = why_not is None
        drivers = setting_up.installs_driver(self._doctor.session, found)
        if drivers:
            why_not = "driver and firmware first; afterwards CANN"
        more = ("#licence",) if ready else ()
        self._show("plan", "The plan; nothing was changed", "#preview", ".buttons", *more)
        said: list[Paragraph] = []
        if why_not:
            said = [Paragraph(Content.styled(why_not, "bold $warning"), "• ", "  "), Paragraph(Content(""))]
        said += [Paragraph(Content(line), "", "     ", fold=True) for line in found.lines(narrow=True)]
        self.query_one("#lines", Page).show(said)
        self.query_one("#preview", VerticalScroll).scroll_home(animate=False)
        self.query_one("#go").display = ready
        self.query_one("#go", Button).disabled = not self.query_one("#licence", Checkbox).value
        self.query_one("#driver").display = drivers
        self.query_one("#licence" if ready else "#driver" if drivers else "#copy").focus()

    def on_resize(self) -> None:
        """Give the plan all free height."""
        self.query_one("#preview").styles.max_height = max(3, self.size.height * 23 // 25 - 12)

    @on(Button.Pressed, "#driver")
    def _ask_service(self) -> None:
        self._ask(
            "service", "Who says that this node is out of service?", list(SERVICE), int(not self._answers.managed)
        )

    def _ask_stop(self) -> None:
        question = "Which units or containers that hold an NPU may npudoctor stop? It starts them again after READY."
        self._show("stop", question, "#stop", "#names")
        held = self._found.holders if self._found is not None else ()
        shown = [Paragraph(Content(line), "• ", "  ") for line in held or ("none is known to hold an NPU",)]
        self.query_one("#names", Page).show(shown)
        self.query_one("#stop").focus()

    def _ask_host(self) -> None:
        self._show("host", "The name of this host begins the installation", "#host", "#names")
        self.query_one("#host", Input).value = ""
        lines = list(self._found.lines(narrow=True)) if self._found is not None else []
        back = next((line for line in lines if line.startswith("NO WAY BACK")), "")
        steps = [line for line in lines if ".install (" in line and "cann." not in line]
        said = [Paragraph(Content.styled(line, "bold $warning"), "• ", "  ") for line in (*steps, back) if line]
        self.query_one("#names", Page).show([*said, Paragraph(Content(REBOOT))])
        self.query_one("#host").focus()

    @on(Input.Submitted, "#stop")
    def _stop_given(self, event: Input.Submitted) -> None:
        self._answers = replace(self._answers, stop=event.value)
        self._ask_host()

    @on(Input.Submitted, "#host")
    def _host_given(self, event: Input.Submitted) -> None:
        if not event.value.strip() or self._found is None:
            return
        words = setting_up.install_words(self._found, replace(self._answers, host=event.value))
        doctor = self._doctor
        self.dismiss()
        doctor.call_after_refresh(doctor.push_screen, Follow(words))

    # Answers

    def complete(self, typed: str) -> None:
        """Complete the path in a thread: a folder may be on a file system that hangs."""
        doctor = self._doctor

        def read() -> None:
            doctor.tell(self._show_completion, typed, *setting_up.complete_path(typed))

        doctor.beside(read)

    def _show_completion(self, typed: str, path: str, names: list[str]) -> None:
        field = self.query_one("#folder", Input)
        if not self.is_attached or field.value != typed:
            return
        field.value = path
        field.cursor_position = len(path)
        listed = [Paragraph(Content.styled("   ".join(names), "$muted"))] if names else []
        self.query_one("#names", Page).show(listed)

    @on(Input.Submitted, "#folder")
    def _folder_given(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self._answers = replace(self._answers, folder=event.value.strip(), expect="")
            self._ask_purpose()

    @on(OptionList.OptionSelected, "#answers")
    def _answered(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self._stage == "purpose":
            self._answers = replace(self._answers, purpose=event.option_index, expect="")
            self._plan()
        elif self._stage == "service":
            self._answers = replace(self._answers, managed=event.option_index == 0)
            self._ask_stop()
        elif self._stage == "sets" and self._found is not None:
            self._answers = replace(self._answers, expect=self._found.choices[event.option_index][1])
            self._plan()

    @on(Checkbox.Changed, "#licence")
    def _licence_accepted(self, event: Checkbox.Changed) -> None:
        self.query_one("#go", Button).disabled = not event.value

    @on(Button.Pressed, "#go")
    def _go(self) -> None:
        doctor, found = self._doctor, self._found
        self.dismiss()
        if found is not None:
            doctor.call_after_refresh(open_job, doctor, lambda: setting_up.propose(doctor.session, found))

    @on(Button.Pressed, "#copy")
    def _copy(self) -> None:
        if self._found is not None:
            words = self._doctor.session.node.words
            offer(self._doctor, setting_up.commands(self._found, self._answers, words))

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss()

    def action_back(self) -> None:
        """Go back to the question before; from the first one, close."""
        if self._stage == "purpose":
            self._ask_folder()
        elif self._stage in ("plan", "sets"):
            self._ask_purpose()
        elif self._stage == "service" and self._found is not None:
            self._show_plan(self._found)
        elif self._stage == "stop":
            self._ask_service()
        elif self._stage == "host":
            self._ask_stop()
        else:
            self.dismiss()

    def action_scroll(self, way: int) -> None:
        """Move through the plan."""
        self.query_one("#preview", VerticalScroll).scroll_relative(y=way, animate=False)
