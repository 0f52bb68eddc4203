"""Sparse compositional metric learning: a sparse sum of given directions.

`scml.py` is the learner, `basis.py` makes the directions, `margins.py` holds the comparisons along them, and
`sparse_hinge.py` finds their weights.
"""
