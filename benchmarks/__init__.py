"""Benchmarks: ratios measured in one run, with the quality reached beside the time."""
