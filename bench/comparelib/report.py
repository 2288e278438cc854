# SPDX-License-Identifier: BSD-3-Clause
"""The report: a table to read, CSV files, plots."""

import csv
import os
import shutil
import statistics
import subprocess

from . import targets


class Results:
    """All values of all runs, as they came."""

    def __init__(self):
        self.values = {}        # (test, size): {impl: [value, ...]}
        self.raw = []           # (round, impl, test, size, value)
        self.limits = {}        # (name, size): [value, ...]
        self.failures = []      # (round, impl, task name, why)

    def add(self, turn, impl, values):
        """Values of one run."""
        for (test, size), value in values.items():
            self.values.setdefault((test, size), {}).setdefault(impl, []).append(value)
            self.raw.append((turn, impl, test, size, value))

    def add_limits(self, turn, values):
        """Limits of one round."""
        for key, value in values.items():
            self.limits.setdefault(key, []).append(value)
            self.raw.append((turn, "limits", key[0], key[1], value))

    def medians(self, test, size):
        """{impl: median}."""
        return {impl: statistics.median(values) for impl, values in self.values.get((test, size), {}).items()}

    def best_limits(self):
        """{(name, size): the best round's median}: a round that something disturbed does not lower what is possible."""
        return {key: (max if targets.is_copy(key[1]) else min)(values) for key, values in self.limits.items()}


def number(value):
    """Four significant digits, no exponent."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def spread(values):
    """Half the range in per cent of the median."""
    if not values or len(values) < 2:
        return "-"
    middle = statistics.median(values)
    return f"{(max(values) - min(values)) / 2 / middle * 100:.0f}%" if middle else "-"


def in_order(keys):
    """Tests in the order in which they first came, sizes ascending."""
    order = {}
    for test, _size in keys:
        order.setdefault(test, len(order))
    return sorted(keys, key=lambda k: (order[k[0]], -1 if k[1] is None else k[1]))


def rows_of(results, names, cpus):
    """One dict per figure."""
    limits = results.best_limits()
    rows = []
    for test, size in in_order(results.values):
        medians = results.medians(test, size)
        mine = medians.get("heddle")
        peer_name, peer = targets.better_peer(test, medians)
        limit = targets.limit_of(test, size, limits, cpus)
        judged = targets.Verdict() if mine is None else targets.verdict(test, size, mine, peer, limit)
        rows.append({
            "test": test, "size": size, "medians": {n: medians.get(n) for n in names},
            "values": results.values[(test, size)], "peer_name": peer_name, "peer": peer,
            "ratio": mine / peer if mine is not None and peer and peer > 0 else None,
            "limit": limit, "distance": mine / limit if mine is not None and limit else None, "verdict": judged,
        })
    return rows


def derived_rows(results):
    """Targets over several figures."""
    limits = results.best_limits()
    return targets.derived(results.medians, limits) + \
        targets.charged(results.medians, in_order(results.values), limits)


def aligned(lines, out):
    """Columns: the first two to the left, the rest to the right, the last two to the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [cell.ljust(w) if i < 2 or i >= len(line) - 2 else cell.rjust(w)
                 for i, (cell, w) in enumerate(zip(line, widths))]
        out.write("  ".join(cells).rstrip() + "\n")


def write_limits(results, out):
    """The machine's limits, the best round's."""
    if not results.limits:
        return
    out.write("\nLimits of this machine, taken in each round (median of the best round)\n")
    lines = [["what", "bytes", "value", "", ""]]
    for (name, size), value in results.best_limits().items():
        unit = "MB/s" if targets.is_copy(size) else "ns"
        lines.append([name, "" if size is None else str(size), number(value), unit, ""])
    aligned(lines, out)
    hops = results.limits.get(("line_hop_shared", None), [])
    if hops and max(hops) > 1.5 * min(hops):
        out.write("The machine was not equally fast all the time: a line hop took " + ", ".join(number(h) for h in hops) +
                  " ns in its rounds, and where it does, what waits for another CPU takes longer on all implementations; "
                  "more rounds tell more\n")


def write_table(results, names, cpus, out):
    """The table to read. Returns (judged, reached)."""
    rows = rows_of(results, names, cpus)
    head = ["figure", "bytes", *names, "heddle ±", "better peer", "ratio", "limit", "x limit", "target", "verdict"]
    lines = [head]
    for row in rows:
        lines.append([row["test"], "" if row["size"] is None else str(row["size"]),
                      *[number(row["medians"][n]) for n in names],
                      spread(row["values"].get("heddle")), row["peer_name"] or "-", number(row["ratio"]),
                      number(row["limit"]), number(row["distance"]), row["verdict"].text, row["verdict"].word()])
    out.write("\nMedians; ±: half the range; ratio = heddle / better peer; x limit = heddle / limit\n")
    aligned(lines, out)
    more = derived_rows(results)
    if more:
        out.write("\nFigures from several of these (heddle)\n")
        aligned([["figure", "unit", "value", "target", "verdict"]] +
                [[what, unit, number(value), v.text, v.word()] for what, value, unit, v in more], out)
    verdicts = [row["verdict"] for row in rows] + [v for *_ignored, v in more]
    return verdicts


def write_verdicts(verdicts, out):
    """How many targets were reached."""
    judged = [v for v in verdicts if v.text and v.reached is not None]
    open_ones = [v for v in verdicts if v.text and v.reached is None]
    reached = sum(v.reached for v in judged)
    out.write(f"\nTargets: {reached} of {len(judged)} reached, {len(judged) - reached} not")
    out.write(f", {len(open_ones)} not judged (no peer, or a disturbed limit).\n" if open_ones else ".\n")


def write_csv(results, names, cpus, folder):
    """summary.csv: a line per figure; raw.csv: every value of every run; failures.csv."""
    with open(os.path.join(folder, "summary.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["figure", "bytes", *names, "heddle_min", "heddle_max", "runs", "better_peer", "ratio", "limit",
                         "times_limit", "target", "verdict"])
        for row in rows_of(results, names, cpus):
            own = row["values"].get("heddle", [])
            writer.writerow([row["test"], "" if row["size"] is None else row["size"],
                             *["" if row["medians"][n] is None else row["medians"][n] for n in names],
                             min(own, default=""), max(own, default=""), len(own), row["peer_name"] or "",
                             *["" if row[k] is None else row[k] for k in ("ratio", "limit", "distance")],
                             row["verdict"].text, row["verdict"].word()])
        for what, value, _unit, judged in derived_rows(results):
            writer.writerow([what, "", *[value if n == "heddle" else "" for n in names], "", "", "", "", "", "", "",
                             judged.text, judged.word()])
    with open(os.path.join(folder, "raw.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["round", "implementation", "figure", "bytes", "value"])
        writer.writerows([t, i, n, "" if s is None else s, v] for t, i, n, s, v in results.raw)
    with open(os.path.join(folder, "failures.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["round", "implementation", "task", "why"])
        writer.writerows(results.failures)


# ---- plots ---------------------------------------------------------------------------------------------------------

PLOTS = (("latency us", "latency", "us", "one-way latency"), ("bandwidth MB/s", "bandwidth", "MB/s", "bandwidth"),
         ("bi-bandwidth MB/s", "bibw", "MB/s", "bi-directional bandwidth"),
         ("allreduce 2 us", "allreduce", "us", "allreduce, 2 ranks"), ("bcast 2 us", "bcast", "us", "bcast, 2 ranks"),
         ("alltoall 2 us", "alltoall", "us", "alltoall, 2 ranks"))


def terminal():
    """gnuplot's terminal and file ending, or None."""
    if not shutil.which("gnuplot"):
        return None
    for name, ending in (("pngcairo size 900,600", "png"), ("svg size 900,600 dynamic", "svg"), ("png", "png")):
        done = subprocess.run(["gnuplot", "-e", f"set terminal {name}"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            return name, ending
    return None


def plot_one(results, names, cpus, folder, chosen, plot):
    """One plot; its path, or None where there is nothing to plot. Raises OSError with gnuplot's words."""
    test, name, unit, title = plot
    rows = [r for r in rows_of(results, names, cpus) if r["test"] == test and r["size"]]
    if len(rows) < 2:
        return None
    data = os.path.join(folder, name + ".dat")
    with open(data, "w", encoding="utf-8") as file:
        file.write("# bytes " + " ".join(names) + " limit\n")
        for row in rows:
            cells = [row["medians"][n] for n in names] + [row["limit"]]
            file.write(" ".join([str(row["size"])] + ["nan" if c is None else f"{c:.6g}" for c in cells]) + "\n")
    curves = [f"'{data}' using 1:{i + 2} with linespoints title '{n}'" for i, n in enumerate(names)]
    if any(row["limit"] for row in rows):
        curves.append(f"'{data}' using 1:{len(names) + 2} with lines dashtype 2 title 'limit'")
    target = os.path.join(folder, f"{name}.{chosen[1]}")
    script = "\n".join([f"set terminal {chosen[0]}", f"set output '{target}'", f"set title '{title}'",
                        "set logscale x 2", "set logscale y", "set format x '%.0b%B'", "set rmargin 4",
                        "set xlabel 'bytes'", f"set ylabel '{unit}'", "set grid",
                        "set key left top", "set datafile missing 'nan'", "plot " + ", ".join(curves), ""])
    done = subprocess.run(["gnuplot"], input=script, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          check=False)
    if done.returncode:
        raise OSError(done.stderr.strip())
    return target


def write_plots(results, names, cpus, folder, out):
    """All plots for which there are figures; says what was written, or why nothing was."""
    chosen = terminal()
    if not chosen:
        out.write("No plots: gnuplot is not installed, or has neither PNG nor SVG.\n")
        return
    for plot in PLOTS:
        try:
            path = plot_one(results, names, cpus, folder, chosen, plot)
        except OSError as error:
            out.write(f"No plot of {plot[0]}: {error}\n")
            continue
        if path:
            out.write(f"{path}\n")
