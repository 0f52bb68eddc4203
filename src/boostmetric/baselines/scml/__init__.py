"""Sparse compositional metric learning: a sparse sum of given directions.

`scml.py` is the learner, `basis.py` makes the directions, and `sparse_hinge.py` finds their weights.
"""
