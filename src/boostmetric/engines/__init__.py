"""Engines: what runs the shards of a problem, and holds them.

A *backend* (`backend`) is what users choose: threads of this process, a device, or a cluster. Given a problem, it opens
a *shard pool* (`boostmetric.oracles.merged.ShardPool`) that holds the shards for as long as a fit lasts.
"""
