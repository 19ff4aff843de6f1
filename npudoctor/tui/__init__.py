"""The terminal interface: screens and widgets over what `npudoctor.tui.model` says."""
