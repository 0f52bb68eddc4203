"""Engines, which hold and run the shards of a problem.

A *backend* (`backend`) is what users choose: threads of this process, a device, or a cluster. Given a problem, it opens
a *shard pool* (`boostmetric.oracles.merged.ShardPool`) that holds the shards during a fit.
"""
