"""The five verbs, and the search for neighbours, on a device of torch."""
