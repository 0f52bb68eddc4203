"""Work on points in many files, part by part: in this process, or on a Ray cluster.

One can follow the data by file name: `points` reads the files batch by batch; `survey` looks at each once, for what
must be known of all; `part` finds the neighbours of some of the points among all, and `folder` keeps what was found.
`tasks` is the only place that knows where the work is done, and `mining` puts these together.
"""

from boostmetric.mining.cluster.folder import MinedNeighbors
from boostmetric.mining.cluster.neighbors import mine_neighbors

__all__ = ["MinedNeighbors", "mine_neighbors"]
