"""Facts about CANN: toolkits, libraries, packages, and the environment that they need."""
