"""The solver: Algorithm 2 of the paper (loop), with its direction (weak learner) and step (line search).

Start with `loop`, then `direction`, `step` and `block`, then `boostmetric.oracles`, which they call. Around them,
`problem` makes an oracle from points and comparisons, `learn` runs one fit, `passes` runs several and mines the
comparisons again in between, `online` learns from a stream, `corrective` is the other solver, `result` holds what they
all return, and `checkpoint_file` saves a fit.
"""
