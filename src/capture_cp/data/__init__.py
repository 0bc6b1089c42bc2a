"""Logged transitions and rollouts, and the files they are kept in."""
