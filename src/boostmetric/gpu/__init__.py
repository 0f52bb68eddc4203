"""The five verbs of an oracle on a torch device."""
