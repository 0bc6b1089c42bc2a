"""Systems to try the method on: true dynamics, a deliberately wrong model, strata, data."""
