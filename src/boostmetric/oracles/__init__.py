"""Oracles: they keep distances and weights to themselves and answer five questions with small sums.

To read, from the loop down to the kernels:

- `protocol`: the five verbs, and what the loop sees of their answers;
- `sharded`: the oracle that the loop asks. The comparisons are cut into *shards*, which an *engine* keeps (threads, a
  device, a cluster: `boostmetric.engines`); `merged` asks them all and adds up their `masses`, of which `losses` makes
  the loss;
- `shard`, and on the CPU `pair_shard`: the five verbs of one shard. How its pairs form groups is known to `groups`
  (several near or far pairs), `singles` (one of each) and `blocks` (all points of another class), each with a file of
  `boostmetric.kernels` of its name; on a device, to `boostmetric.gpu`;
- `cpu` cuts a problem into shards, `points` are the rows they share, `histogram` is a faster answer of `singles`, and
  `held_out` watches comparisons that are not learned from.
"""
