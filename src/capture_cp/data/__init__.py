"""Logged transitions and roll-outs, and the files they are kept in."""
