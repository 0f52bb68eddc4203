"""Compiled loops over the pairs and groups of one shard.

Where to start: `pairs` computes the direction; `groups` computes weights and moments of groups, with `singles` and
`blocks` as special cases; `lanes` holds the vector operations that they all use. Of the others, `bins` defines the
histogram that `singles` fills, `lanczos` serves the solver, `brute_force` the neighbour search, and `hinge`,
`soft_neighbors` and `graphical_lasso` the baselines.

Every kernel works on arrays that the caller has checked and allocated: it is single-threaded, releases the GIL,
allocates nothing and raises nothing. Parallelism comes from running several shards at once, never from inside a kernel,
so the bits of a result do not depend on the number of threads.

Letters are as in the paper: `d` squared distances of the pairs, `h` their growth per unit of step along the direction
xi, `w` a step, `c` pair coefficients, `u` weights.

Sums over members are exact log-sum-exps: each side of a group is shifted by its own largest exponent, or by one close
enough to lose nothing, and the groups of a shard by the largest among them, so nothing overflows however large X is. A
*mass* is always returned as the pair (shift, sum), meaning ``sum * exp(shift)``.

The hot loops are written in vectors of eight numbers (`lanes`). What a compiler makes of plain loops depends on whether
it can prove that arrays do not overlap and on the width it prefers, and if it may reorder sums, the result can vary.
Here the order of every addition is explicit, and the full width of the processor is used.

Large index arrays are unsigned, so that numba need not check for negative indices.
"""
