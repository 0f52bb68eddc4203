"""Compiled loops over the pairs and groups of one shard.

To read: `pairs`, the direction; `groups`, weights and moments of groups, of which `singles` and `blocks` are special
cases; `lanes`, what they are all written in. Of the others, `bins` are those of the histogram that `singles` fills,
`lanczos` serves the solver, `neighbors` the search for neighbours, and `hinge` the baselines.

Every kernel works on arrays that the caller has checked and allocated: it is single-threaded, releases the GIL,
allocates nothing and raises nothing. Threads come from running several shards at once, never from inside a kernel, so
the bits of a result do not depend on the number of threads.

Letters as in the paper: `d` squared distances of the pairs, `h` their growth per unit of step along the direction xi,
`w` a step, `c` pair coefficients, `u` weights.

Sums over members are exact log-sum-exps: each side of a group is shifted by its own largest exponent, or by one close
enough to lose nothing, the groups of a shard by the largest among them, so nothing overflows however far X has grown. A
*mass* is always returned as the pair (shift, sum), meaning ``sum * exp(shift)``.

The loops that count are written in vectors of eight numbers (`lanes`). What a compiler would make of plain loops
depends on whether it can prove that arrays do not overlap, on the width it prefers, and with reordered sums on the
moment; here the order of every addition is written down, and the processor's full width is used.

Arrays of many indices are unsigned: numba need not test whether an index counts from the end.
"""
