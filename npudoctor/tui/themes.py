"""Three themes: dark, light, and one without colour. One accent; red and yellow only for findings."""

from __future__ import annotations

from textual.theme import Theme

DARK, LIGHT, MONO = "npudoctor-dark", "npudoctor-light", "npudoctor-mono"
NAMES = (DARK, LIGHT, MONO)


def themes() -> tuple[Theme, ...]:
    """Names of all themes; the first is the default."""
    return (
        Theme(
            name=DARK,
            primary="#4fb3bf",
            secondary="#c792ea",
            accent="#5ccfd9",
            foreground="#d8dee6",
            background="#11151b",
            surface="#171d25",
            panel="#212a35",
            success="#7fb685",
            warning="#e6b455",
            error="#f2777a",
            dark=True,
            variables={
                "muted": "#8b98a8",
                "faint": "#5d6b7a",
                "border": "#2c3744",
                "border-blurred": "#2c3744",
                "footer-key-foreground": "#5ccfd9",
            },
        ),
        Theme(
            name=LIGHT,
            primary="#0b7285",
            secondary="#7b3fa0",
            accent="#0b7285",
            foreground="#1d242c",
            background="#fbfbf9",
            surface="#f1f2ef",
            panel="#e3e6e2",
            success="#2f7d4f",
            warning="#8f5f00",
            error="#c0272d",
            dark=False,
            variables={
                "muted": "#5a656f",
                "faint": "#8b959c",
                "border": "#c9cfca",
                "border-blurred": "#c9cfca",
                "footer-key-foreground": "#0b7285",
            },
        ),
        Theme(
            name=MONO,
            primary="#ffffff",
            secondary="#ffffff",
            accent="#ffffff",
            foreground="#e6e6e6",
            background="#000000",
            surface="#000000",
            panel="#262626",
            success="#e6e6e6",
            warning="#ffffff",
            error="#ffffff",
            dark=True,
            variables={
                "muted": "#b0b0b0",
                "faint": "#8a8a8a",
                "border": "#808080",
                "border-blurred": "#808080",
                "footer-key-foreground": "#ffffff",
            },
        ),
    )
