"""Mine comparisons by search: hard negatives as triplets, and targets and impostors from many files."""

from boostmetric.mining.cluster.folder import MinedNeighbors
from boostmetric.mining.cluster.neighbors import mine_neighbors
from boostmetric.mining.hard_negatives import mine_from_labels, mine_triplets
from boostmetric.mining.mined import Mined

__all__ = ["Mined", "MinedNeighbors", "mine_from_labels", "mine_neighbors", "mine_triplets"]
