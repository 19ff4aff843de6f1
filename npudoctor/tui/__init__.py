"""The terminal interface: screens and widgets that draw `npudoctor.tui.model`."""
