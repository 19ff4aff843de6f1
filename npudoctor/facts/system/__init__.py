"""Facts about the operating system and the host hardware."""
