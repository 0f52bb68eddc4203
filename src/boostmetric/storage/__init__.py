"""Files that are written whole or not at all, and arrays in a checked file."""
