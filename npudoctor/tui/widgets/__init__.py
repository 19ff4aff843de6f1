"""What screens are made of: each draws plain data and posts messages."""
