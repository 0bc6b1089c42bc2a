"""A seven-joint arm that reaches into a shelf past a glass, in MuJoCo: a task without a grid."""
