"""How often a planner fails, with a guarantee: settings chosen by Learn then Test, certificates, whether they still hold."""
