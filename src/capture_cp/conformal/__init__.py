"""Conformal prediction on arrays: ranks and thresholds, scores, groups, coverage."""
