"""Where work is done: threads, BLAS kept to one of them, and devices."""
