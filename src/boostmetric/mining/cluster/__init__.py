"""Mine neighbours of points in many files, part by part: in this process, or on a Ray cluster.

The modules follow the data: `point_files` reads the files batch by batch; `survey` reads each file once, for facts
about all points; `part` finds the neighbours of some points among all, and `folder` stores the results. `tasks` is the
only module that knows where the work runs, and `neighbors` puts these together.
"""

from boostmetric.mining.cluster.folder import MinedNeighbors
from boostmetric.mining.cluster.neighbors import mine_neighbors

__all__ = ["MinedNeighbors", "mine_neighbors"]
