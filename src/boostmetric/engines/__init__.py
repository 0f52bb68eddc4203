"""Engines: where shards live, nothing else.

A *place* (`place`) is what users name: threads of this process, a device, a cluster. Asked about a problem, it gives
an *engine* (`boostmetric.oracles.merged.Engine`) that holds the shards of that problem for as long as a fit lasts.
"""
