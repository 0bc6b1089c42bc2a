"""Attacks on everything that comes from outside: `make attack` runs them, in minutes, and prints tries and failures.

An attack is a module with `rows(seed)`, which yields one `Row` for each way of attacking. A try fails if it ends in anything
but a right answer or one sentence: a traceback, a crash, a hang, a wrong answer, a file left half written, something run.
"""
