"""The solver: Algorithm 2 of the paper (loop), with its direction (weak learner) and step (line search).

To read: `loop`, then `direction` and `step`, then `boostmetric.oracles`, which they ask. Around them, `problem` makes
an oracle of points and comparisons, `learn` is one fit, `passes` several with comparisons found anew in between,
`online` follows a stream, `corrective` is the other solver, `result` what all of them come to, and `checkpoint_file`
how a fit is kept.
"""
