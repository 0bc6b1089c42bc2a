"""Logged transitions and rollouts, and their file formats."""
