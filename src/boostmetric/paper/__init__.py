"""The experiments of the paper, again."""
