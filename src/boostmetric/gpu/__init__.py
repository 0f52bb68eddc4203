"""Work on a GPU, by torch: imported only where a device is asked for."""
