"""Facts about the driver and the firmware: what is installed, loaded, and used after a reboot."""
