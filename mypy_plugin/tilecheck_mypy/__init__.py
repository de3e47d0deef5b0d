"""tilecheck."""
