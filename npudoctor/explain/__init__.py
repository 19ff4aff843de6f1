"""From a check, a pitfall, a code or a failing log to what it means, and how it is mended and foreseen."""
