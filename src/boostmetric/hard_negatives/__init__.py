"""Hard negatives: documents that are near a query and not relevant to it, as triplets to train with."""

from boostmetric.hard_negatives.mine import mine_from_labels, mine_triplets
from boostmetric.hard_negatives.result import Mined

__all__ = ["Mined", "mine_from_labels", "mine_triplets"]
