"""How good several networks of choices are together: from the exams of runs of `lathe train`.

    committee.py RUN,RUN,... RUN,RUN,...

Each argument is a committee on one part of the table: the folders of its members. All arguments together are the tasks.
Members name their rows from the likeliest on (learned_in_order), all of them where the exam has as many samples. Prints the best of n over
the catalogue's default and over the best of evolution's 16, geometric means of lower bounds and 95% intervals over
tasks; what a row is worth is the mean of what the exams found.
"""

import collections
import json
import math
import random
import sys

COUNTS = (1, 2, 4, 8, 16)


def read(folder):
    """{task: {entrant: [(candidate, lower bound)]}} in the order of evaluation."""
    tasks = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(folder + "/exam.jsonl", encoding="utf-8") as file:
        samples = [json.loads(line) for line in file]
    for one in sorted(samples, key=lambda one: one["number"]):
        if one["number"] > 0:
            tasks[one["task_name"]][one["entrant"]].append((one["candidate"], one["speedup_low"]))
    return tasks


def fuse(orders, behind=3):
    """As the policy `choices` does: by the sum of 1 / (place + behind) over the members."""
    scores = collections.Counter()
    for order in orders:
        for place, name in enumerate(dict.fromkeys(order)):
            scores[name] += 1 / (place + behind)
    return [name for name, _ in scores.most_common()]


def interval(logs):
    rng = random.Random(1)
    means = sorted(sum(rng.choice(logs) for _ in logs) / len(logs) for _ in range(4000))
    return "%.3fx [%.3f, %.3f]" % tuple(map(math.exp, (sum(logs) / len(logs), means[100], means[3899])))


def main(committees):
    over_default, over_evolution = collections.defaultdict(list), collections.defaultdict(list)
    for committee in committees:
        members = [read(folder) for folder in committee.split(",")]
        for task, first in members[0].items():
            worth = collections.defaultdict(list)
            for member in members:
                for candidate, low in member[task]["learned_in_order"]:
                    worth[candidate].append(low)
            names = fuse([[name for name, _ in member[task]["learned_in_order"]] for member in members])
            evolved = [max(low for _, low in member[task]["evolve"][:16]) for member in members]
            evolution = sum(map(math.log, evolved)) / len(evolved)
            default = first["default"][0][1]
            for count in COUNTS:
                best = math.log(max(sum(worth[name]) / len(worth[name]) for name in names[:count]))
                over_default[count].append(best - math.log(default))
                over_evolution[count].append(best - evolution)
    print("%d tasks" % len(over_default[1]))
    for count in COUNTS:
        print("best of %2d: over the default %s, over evolution's 16 %s"
              % (count, interval(over_default[count]), interval(over_evolution[count])))


if __name__ == "__main__":
    main(sys.argv[1:])
