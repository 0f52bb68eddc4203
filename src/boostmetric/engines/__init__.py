"""Engines: where shards live, nothing else."""
