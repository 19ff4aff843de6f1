"""Tools of those who make npudoctor; none of it is installed."""
