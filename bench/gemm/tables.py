#!/usr/bin/env python3
"""Joins reports of `lathe gemm bench` and bench/torch/gemm.py by size, and makes tables of one.

    tables.py join WARM.csv [--fill OTHER.csv] [--wall WALL.csv] [--torch TORCH.csv] --out FILE.csv
    tables.py tables FILE.csv

join: device times are those of WARM.csv, or of OTHER.csv where WARM.csv lacks the size, each row's from one run
(`warm_run` names it); offline and server times those of WALL.csv; torch's, and what the exported library took, those
of TORCH.csv. tables: quantiles of the ratios over cuBLASLt autotuned, and splits by work, by clock and by the layout
that cuBLASLt's choice reads, as Markdown.
"""

import argparse
import csv
import math
import pathlib
import sys

CONTENDERS = ("ours", "dispatched", "cublas", "lt_heuristic", "lt_autotuned", "torch", "vendor_best")
VENDORS = ("cublas", "lt_heuristic", "lt_autotuned", "torch")
PROTOCOLS = ("", "cold_", "offline_", "server_")
QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100)
WIN, LOSS = 1.02, 0.98
FULL_CLOCK_MHZ = 1900


def size_of(row):
    return tuple(int(row[extent]) for extent in "mnk")


def read(path):
    if not path:
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {size_of(row): row for row in csv.DictReader(file)}


def number(row, column):
    return float(row.get(column) or 0)


def join(options):
    warm, fill, wall, torch = (read(path) for path in (options.warm, options.fill, options.wall, options.torch))
    header = ["m", "n", "k", "kernel", "fallback"]
    header += [f"{protocol}{one}_ns" for protocol in PROTOCOLS for one in CONTENDERS]
    header += ["host_ours_ns", "host_lt_autotuned_ns", "ratio_low", "ratio_high", "sm_mhz", "lt_choice", "warm_run"]
    rows = []
    for size in sorted(set(warm) | set(fill), key=lambda size: (math.prod(size), size)):
        source = warm.get(size) or fill[size]
        row = dict.fromkeys(header, "")
        for column in header:
            if not column.startswith(("offline_", "server_", "host_")):
                row[column] = source.get(column) or ""
        row["warm_run"] = pathlib.Path(options.warm if size in warm else options.fill).name
        of_wall = wall.get(size, {})
        for column in header:
            if column.startswith(("offline_", "server_", "host_")):
                row[column] = of_wall.get(column) or ""
        for protocol in PROTOCOLS:
            for one in ("dispatched", "torch"):
                column = f"{protocol}{one}_ns"
                row[column] = torch.get(size, {}).get(column) or row[column]
            times = [number(row, f"{protocol}{one}_ns") for one in VENDORS]
            best = min((ns for ns in times if ns > 0), default=0)
            row[f"{protocol}vendor_best_ns"] = f"{best:.1f}" if best else ""
        rows.append(row)
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def ratio(row):
    return number(row, "lt_autotuned_ns") / number(row, "ours_ns")


def quantile(ratios, percent):
    at = (len(ratios) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ratios) - 1)
    return ratios[low] + (ratios[high] - ratios[low]) * (at - low)


def figures(rows, all_ns, lost_ns):
    ratios = [ratio(row) for row in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    wins = sum(one > WIN for one in ratios) / len(ratios)
    losses = sum(one < LOSS for one in ratios) / len(ratios)
    time = sum(number(row, "ours_ns") for row in rows)
    lost = sum(number(row, "ours_ns") for row in rows if ratio(row) < LOSS)
    slow = sum(0 < number(row, "sm_mhz") < FULL_CLOCK_MHZ for row in rows)
    return (f"{len(rows)} | {mean:.3f} | {wins:.0%} | {losses:.0%} | {time / all_ns:.1%} | "
            f"{lost / lost_ns if lost_ns else 0:.1%} | {slow} |")


def split(rows, what, group_of):
    all_ns = sum(number(row, "ours_ns") for row in rows)
    lost_ns = sum(number(row, "ours_ns") for row in rows if ratio(row) < LOSS)
    groups = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    print(f"\n| {what} | sizes | geomean | wins > {WIN} | losses < {LOSS} | share of the time | of the losses' time "
          f"| below {FULL_CLOCK_MHZ} MHz |\n|---|---|---|---|---|---|---|---|")
    for name in sorted(groups):
        print(f"| {name} | {figures(groups[name], all_ns, lost_ns)}")


def tables(options):
    rows = [row for row in read(options.file).values() if number(row, "ours_ns") and number(row, "lt_autotuned_ns")]
    ratios = sorted(map(ratio, rows))
    print("| " + " | ".join(f"{percent}%" for percent in QUANTILES) + " |\n|" + len(QUANTILES) * "---|")
    print("| " + " | ".join(f"{quantile(ratios, percent):.3f}" for percent in QUANTILES) + " |")
    split(rows, "FLOP", lambda row: "1e{0:02} to 1e{1:02}".format(
        decade := math.floor(math.log10(2 * math.prod(size_of(row)))), decade + 1))
    split(rows, "clock", lambda row: "below" if number(row, "sm_mhz") < FULL_CLOCK_MHZ else "full")
    split(rows, "cuBLASLt's choice", lambda row: row["lt_choice"].split("_")[1].upper())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("join")
    verb.add_argument("warm")
    for option in ("--fill", "--wall", "--torch"):
        verb.add_argument(option)
    verb.add_argument("--out", required=True)
    verb.set_defaults(action=join)
    verb = verbs.add_parser("tables")
    verb.add_argument("file")
    verb.set_defaults(action=tables)
    options = parser.parse_args()
    options.action(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
