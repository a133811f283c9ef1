#!/usr/bin/env python3
"""Bandwidth over row widths, from `warpwave bench --suite widths --json FILE`: one plot for each op, and the widths that fall off.

A width falls off where its bandwidth is below 0.8 of the median of the five nearest widths of the same kind (n, n + 1, n + 7).
"""

import argparse
import json
import re
import statistics
import sys


def points(path):
    """op -> kind (0, 1, 7) -> [(width, GB/s)]"""
    out = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            r = json.loads(line)
            op = r["problem"].split()[0]
            n = int(re.search(r"=bf16\[\d+,(\d+)\]", r["problem"]).group(1))
            kind = next(k for k in (0, 1, 7) if (n - k) % 256 == 0)
            out.setdefault(op, {}).setdefault(kind, []).append((n, r["gb_per_s"]))
    for kinds in out.values():
        for p in kinds.values():
            p.sort()
    return out


def cliffs(all_points, floor=0.8):
    found = []
    for op, kinds in all_points.items():
        for series in kinds.values():
            for i, (n, rate) in enumerate(series):
                first = max(0, min(i - 2, len(series) - 5))
                near = statistics.median(r for _, r in series[first : first + 5])
                if rate < floor * near:
                    found.append((op, n, rate, near))
    return found


def plot(all_points, path, title):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = 3
    lines = -(-len(all_points) // columns)
    fig, axes = plt.subplots(lines, columns, figsize=(4.6 * columns, 2.9 * lines), squeeze=False, sharex=True)
    for ax, (op, kinds) in zip(axes.flat, sorted(all_points.items())):
        for kind, series in sorted(kinds.items()):
            ax.plot([n for n, _ in series], [r / 1e3 for _, r in series], marker=".", linewidth=1, label="n" if kind == 0 else f"n + {kind}")
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.set_title(op, fontsize=10)
        ax.set_ylabel("TB/s", fontsize=8)
        ax.grid(alpha=0.3)
    for ax in list(axes.flat)[len(all_points) :]:
        ax.axis("off")
    axes[0][0].legend(fontsize=8)
    fig.suptitle(title, fontsize=11)
    fig.tight_layout()
    fig.savefig(path)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("records", help="JSON lines of the suite")
    p.add_argument("--svg", help="write the plots here")
    p.add_argument("--title", default="Bandwidth over row width, bf16, 256 MB")
    args = p.parse_args()
    all_points = points(args.records)
    if args.svg:
        plot(all_points, args.svg, args.title)
    found = cliffs(all_points)
    for op, n, rate, near in found:
        print(f"{op} at {n}: {rate:.0f} GB/s, {rate / near:.2f} of its neighbours' {near:.0f}")
    print(f"{sum(len(s) for k in all_points.values() for s in k.values())} widths of {len(all_points)} ops, {len(found)} fall off")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
