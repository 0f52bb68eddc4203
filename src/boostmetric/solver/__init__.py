"""The solver: Algorithm 2 of the paper (loop), with its direction (weak learner) and step (line search)."""
