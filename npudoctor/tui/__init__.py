"""The terminal interface: screens and widgets that draw `npudoctor.tui.model`."""

SCREENS = {
    "Overview": "Overview",
    "Cards": "NPUs",
    "Topology": "Topology",
    "Environment": "Environment",
    "Smoke": "Smoke",
    "History": "History",
}
"""The label of each screen by the name of its class, in the order of their keys; the class is in `screens/`."""
