"""Widgets of the screens: each draws plain data and posts messages."""
