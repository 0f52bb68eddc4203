"""Benchmarks: ratios measured in one run, reported together with the quality reached."""


class LeftOutError(Exception):
    """A benchmark cannot run on this machine; existing results are kept."""
