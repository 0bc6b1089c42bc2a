"""The table of the benchmark of plans on a GPU."""

from __future__ import annotations

from typing import Any


def table(report: dict[str, Any]) -> str:
    """The main figures as lines of text."""
    lines = [f"Plan of {report['settings']['samples']} x {report['settings']['horizon']} x 16, {report['device']}"]
    if "plan" in report:
        found, floor = report["plan"], report["plan"]["floor"]
        every = {"end to end": found["end_to_end"]} | {f"kernel {k}": v for k, v in found["kernels"].items()}
        lines += [f"{'microseconds':34} {'median':>9} {'99%':>9} {'worst':>9}"]
        lines += [f"{k:34} {v['median_us']:9.1f} {v['p99_us']:9.1f} {v['worst_us']:9.1f}" for k, v in every.items()]
        lines += [
            f"{'lower bound by arithmetic':34} {floor['floor_us']:9.1f}, roll_out {floor['roll_out_over_floor']:.1f} times"
        ]
    if "torch" in report:
        lines += [f"{'plan, map ' + report['settings']['maps'][0]:34} {'median':>9} {'99%':>9} {'times ours':>11}"]
        lines += [
            f"{row['name']:34} {row['median_us']:9.1f} {row['p99_us']:9.1f} {row['times_ours']:11.1f}"
            for row in report["torch"]["rows"]
        ]
        lines += [f"{name:34} {why}" for name, why in report["torch"]["missing"].items()]
    if "scaling" in report:
        lines += [f"{'scaling':34} {'median':>9} {'plans/s':>11} {'sequences/s':>13}"]
        lines += [
            f"{row['vary']:10} {row[row['vary']]:>23,} {row['median_us']:9.1f} "
            f"{row['plans_a_second']:11,.0f} {row['sequences_a_second']:13.3g}"
            for row in report["scaling"]["rows"]
        ]
    if "agreement" in report:
        found = report["agreement"]
        lines += [
            f"GPU and CPU: {found['different']:,} of {found['stages']:,} stage costs differ by more than "
            f"{found['tolerance']:g}, by at most {found['largest_difference']:.3g}"
        ]
    return "\n".join([*lines, *(f"part {part} failed: {why}" for part, why in report["errors"].items())])
