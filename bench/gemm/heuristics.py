#!/usr/bin/env python3
"""How often the tuner's winners are among the first that a model proposes: Lathe's, and NVIDIA's.

    lathe gemm explain --journal JOURNAL --ranked 36 >ranked.csv
    heuristics.py ranked.csv WINNERS.csv

WINNERS.csv is a report of `lathe gemm bench`. NVIDIA's model is nvidia-matmul-heuristics (tried with 0.1.0.27; `pip
install nvidia-matmul-heuristics`), asked about CUTLASS 3 kernels on its H200: it computes, and needs no GPU. Two
kernels are compared by the tile that a block makes, by the blocks that share K, and by the blocks of a cluster that
share loads. A tile counts with its sides in either order, as kernels exist that make it transposed.
"""

import argparse
import collections
import csv
import re
import sys

from tables import size_of

COUNTS = (1, 8, 36)
NAME = re.compile(r"(?P<skeleton>[a-z]+)_[a-z]{2}_(?P<rows>\d+)x(?P<columns>\d+)x\d+_w\d+x\d+_g\d+_s\d+"
                  r"_c(?P<split>\d+)_m(?P<share_b>\d+)_n(?P<share_a>\d+)_")


def form_of(kernel):
    found = NAME.match(kernel)
    tile = tuple(sorted((int(found["rows"]), int(found["columns"]))))
    shared = int(found["share_a"]) * int(found["share_b"])
    return tile, int(found["split"]), shared, found["skeleton"]


def agree(a, b, parts):
    return a[:parts] == b[:parts]


def of_nvidia(sizes, most):
    """Forms for each size, the best first; of those that differ in what is not compared, one."""
    import nvMatmulHeuristics as nvidia

    layout = nvidia.NvMatmulHeuristicsMatmulLayout.NT_ROW_MAJOR  # B as rows of K
    flags = nvidia.NvMatmulHeuristicsFlags.NONE
    model = nvidia.NvMatmulHeuristicsInterface(nvidia.NvMatmulHeuristicsTarget.CUTLASS3, "HSH", flags=flags)
    gpu = model.createHardwareDescriptor()
    model.setHardwarePredefinedGpu(gpu, nvidia.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
    model.loadInternalDiscoverySet(layout, gpu)
    forms = {}
    for size in sizes:
        found = sorted(model.get_with_mnk(*size, layout, 8 * most, gpu), key=lambda one: one["runtime"])
        kernels = [one["kernel"] for one in found]
        of_size = ((tuple(sorted((one.cta_tile_m, one.cta_tile_n))), one.split_k, one.cluster_m * one.cluster_n, "")
                   for one in kernels)
        forms[size] = list(dict.fromkeys(of_size))[:most]
    model.handle = None  # the library fails when it is destroyed
    return forms


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ranked")
    parser.add_argument("winners")
    options = parser.parse_args()
    with open(options.winners, newline="", encoding="utf-8") as file:
        winners = {size_of(row): form_of(row["kernel"]) for row in csv.DictReader(file)}
    proposals = {"ranked": collections.defaultdict(list), "shortlist": collections.defaultdict(list)}
    with open(options.ranked, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            proposals[row["list"]][size_of(row)].append(form_of(row["kernel"]))
    proposals["NVIDIA"] = of_nvidia(winners, max(COUNTS))
    groups = {"all": list(winners), "wgmma": [size for size, form in winners.items() if form[3] == "wgmma"]}
    print("| winners of | sizes | proposals of | tile, split and cluster in the first " + ", ".join(map(str, COUNTS)) +
          " | tile and split | tile | proposals a size |\n|---|---|---|---|---|---|---|")
    for group, sizes in groups.items():
        for who, forms in proposals.items():
            def share(parts, count):
                found = sum(any(agree(winners[size], one, parts) for one in forms[size][:count]) for size in sizes)
                return f"{found / len(sizes):.0%}"

            cells = [", ".join(share(parts, count) for count in COUNTS) for parts in (3, 2, 1)]
            mean = sum(len(forms[size]) for size in sizes) / len(sizes)
            print(" | ".join((f"| {group}", str(len(sizes)), who, *cells, f"{mean:.1f} |")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
