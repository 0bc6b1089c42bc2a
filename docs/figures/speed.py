"""The picture of the page on speed, drawn from that page's own table."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt

from figures.style import DOCS, FREE, save


def speed_picture() -> None:
    """How many times faster than the named alternative, one bar per job."""
    page = (DOCS / "results" / "speed.md").read_text(encoding="utf-8")
    table = page.partition("| job | alternative | times faster |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| ([\d.]+) \|$", table, flags=re.M)[::-1]
    jobs = [re.sub(r", [\d.]+ (ms|µs)$", "", job) for job, _, _ in rows]
    ratios = [float(ratio) for *_, ratio in rows]
    figure, ax = plt.subplots(figsize=(7.2, 3.2))
    ax.barh(range(len(rows)), ratios, color=FREE)
    ax.set(xscale="log", xlim=(1, 3000), xlabel="times faster than the alternative (log scale)", yticks=range(len(rows)))
    ax.set_yticklabels(jobs, fontsize=8)
    for at, (ratio, (_, alternative, _)) in enumerate(zip(ratios, rows)):
        ax.text(1.1 * ratio, at, f"{ratio:g} × {alternative.replace('`', '')}", va="center", fontsize=8)
    figure.tight_layout()
    save("speed", figure)
