"""Tight-tolerance peg insertion in the plane of the hole (Section 6.2 of the paper)."""
