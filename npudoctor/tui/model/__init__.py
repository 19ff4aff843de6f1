"""What the terminal interface shows, as plain data: no module here knows how it is drawn."""
