"""Benchmarks: ratios measured in one run, with the quality reached beside the time."""


class LeftOutError(Exception):
    """What a benchmark needs is not here; results of another machine stay as they are."""
