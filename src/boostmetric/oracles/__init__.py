"""Oracles, which keep distances and weights to themselves and answer five queries with small sums.

From the loop down to the kernels:

- `protocol`: the five verbs, and their answers as the loop sees them;
- `sharded`: the oracle that the loop calls. The comparisons are cut into *shards*, which an *engine* holds (threads, a
  device, a cluster: `boostmetric.engines`); `merged` calls them all and adds up their `masses`, from which `losses`
  computes the loss;
- `shard`, and on the CPU `pair_shard`: the five verbs of one shard. How its pairs form groups is implemented by
  `group_shard` (several near or far pairs), `single_shard` (one of each) and `block_shard` (all points of another
  class), with the kernels in `groups`, `singles` and `blocks` of `boostmetric.kernels`; on a device, by
  `boostmetric.gpu`;
- `cpu` cuts a problem into shards, `point_rows` holds the points they share, `histogram` is a faster answer for single
  comparisons, and `held_out` monitors comparisons that are not learned from.
"""
