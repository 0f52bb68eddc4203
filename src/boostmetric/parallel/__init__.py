"""Threads, single-threaded BLAS, and devices."""
