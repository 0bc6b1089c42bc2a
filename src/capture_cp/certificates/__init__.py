"""Guarantees on how often a planner fails: settings chosen by Learn then Test, certificates, and whether they still hold."""
