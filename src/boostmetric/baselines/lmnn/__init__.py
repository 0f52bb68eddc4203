"""Large margin nearest neighbours: the learner, its objective, and the search for impostors."""

from boostmetric.baselines.lmnn.lmnn import LMNN

__all__ = ["LMNN"]
