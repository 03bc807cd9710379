#!/usr/bin/env python3
"""Other simulators beside ours, in one run: peers.py BUILD_FOLDER

Prints a table of ratios. Every program is pinned to one processor; what is compared is processor time,
user and system, of whole processes or of one forward pass. SimGrid is Debian's libsimgrid-dev; JAX and
PyTorch come from PyPI into a virtual environment under the build folder. What cannot be had is named.
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60  # of processor time; a program that needs more is stopped
FLAGS = "-O3"  # ours and every peer that is compiled here


class Run:
    """Processor seconds and peak bytes of a process and its children."""

    def __init__(self, words):
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
        self.error = child.stderr.read().decode(errors="replace").strip()[-200:]
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime
        self.peak = usage.ru_maxrss * 1024
        self.over = child.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU)
        self.failed = child.returncode != 0 and not self.over


def median_run(words, times):
    runs = [Run(words) for _ in range(times)]
    bad = next((r for r in runs if r.failed or r.over), None)
    return bad or sorted(runs, key=lambda r: r.cpu)[times // 2]


def seconds_text(run):
    return f"over {SECONDS} s" if run.over else f"{run.cpu:.3f} s"


def print_row(work, ours, peer, ratio):
    print(f"| {work} | {ours} | {peer} | {ratio} |", flush=True)


def compare(work, ours, name, peer, memory=False):
    """Rows for two whole processes."""
    if ours.failed or ours.over or peer.failed:
        print_row(work, seconds_text(ours), f"{name}: failed ({(ours.error or peer.error)})", "")
        return
    times = ("over " if peer.over else "") + f"{(SECONDS if peer.over else peer.cpu) / ours.cpu:.1f}"
    print_row(work, seconds_text(ours), f"{name}: {seconds_text(peer)}", times)
    if memory:
        print_row(work + ", peak memory", f"{ours.peak / 1e6:.0f} MB", f"{name}: {peer.peak / 1e6:.0f} MB",
                  f"{peer.peak / ours.peak:.1f}")


# --- SimGrid

PLATFORM = """<?xml version='1.0'?><!DOCTYPE platform SYSTEM 'https://simgrid.org/simgrid.dtd'>
<platform version='4.1'><cluster id='c' prefix='h' suffix='' radical='0-{last}' speed='1Gf' bw='50GBps'
 lat='5us'/></platform>
"""
# The fastest options: nothing is timed on the host, globals of ranks are not separated, and stacks
# have the size of shardproof's.
SMPI_OPTIONS = ["--log=root.thres:critical", "--cfg=smpi/simulate-computation:no",
                "--cfg=smpi/privatization:no", "--cfg=contexts/stack-size:128"]


def smpi_version():
    found = subprocess.run(["smpicxx", "-show"], capture_output=True, text=True)
    package = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "libsimgrid-dev"], capture_output=True,
                             text=True)
    return package.stdout or found.stdout.split()[0]


def write_listing(path, ranks):
    path.write_text(
        '{"version": 1, "mesh": "dp=%d", "topology": "flat(latency=\'5 us\', bandwidth=\'50 GB/s\')",\n'
        ' "tensors": {"x": {"shape": [%d], "placements": "dp:S(0)"}},\n'
        ' "ranks": {"all": ["a = all_reduce(x, sum)", "b = all_reduce(x, sum)",'
        ' "c = all_reduce(x, sum)", "d = all_reduce(x, sum)"]}}\n' % (ranks, ranks))


def beside_simgrid(build, work):
    if not shutil.which("smpicxx"):
        print_row("all_reduce", "", "SimGrid SMPI: not installed (libsimgrid-dev)", "")
        return
    name = f"SimGrid SMPI {smpi_version()}"
    subprocess.run(["smpicxx", FLAGS, HERE / "peers_smpi.cpp", "-o", work / "smpi"], check=True)

    def smpi(ranks, calls, elements):
        platform = work / f"platform_{ranks}.xml"
        platform.write_text(PLATFORM.format(last=ranks - 1))
        return Run(["smpirun", "-np", str(ranks), "-platform", platform, *SMPI_OPTIONS, work / "smpi",
                    str(calls), str(elements)])

    for ranks in (4096, 16384):
        peer = smpi(ranks, 4, 1)
        functions = median_run([build / "bench/rank_functions", str(ranks), "4", "1"], 5)
        compare(f"4 all_reduce of one f32, {ranks} ranks, C++ rank functions", functions, name, peer)
        listing = work / f"listing_{ranks}.json"
        write_listing(listing, ranks)
        ours = median_run([build / "shardproof", "run", listing], 5)
        compare(f"4 all_reduce of one f32, {ranks} ranks, our listing", ours, name, peer)
    ours = median_run([build / "bench/rank_functions", "256", "5", str(1 << 18)], 5)
    compare("5 all_reduce of 1 MiB, 256 ranks, C++ rank functions", ours, name, smpi(256, 5, 1 << 18), True)


# --- Python's simulators of many ranks in one process

def prepare_python(work):
    """The interpreter of the virtual environment, and the packages it lacks with the reason."""
    python = work / "venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    lacking = {}
    for package in ("jax", "torch"):
        if subprocess.run([python, "-c", f"import {package}, numpy"], capture_output=True).returncode == 0:
            continue
        done = subprocess.run([python, "-m", "pip", "install", "-q", package, "numpy"], capture_output=True,
                              text=True)
        if done.returncode != 0:
            lacking[package] = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    return python, lacking


def own_forward_ms(build):
    """Median processor milliseconds of executor_bench's forward passes, by ranks."""
    table = subprocess.run([build / "bench/executor_bench"], capture_output=True, text=True, check=True).stdout
    return {int(ranks): float(ms)
            for ranks, ms in re.findall(r"MLP forward, (\d+) ranks \| ([\d.]+) ms", table)}


def beside_python(build, work):
    python, lacking = prepare_python(work)
    ours = own_forward_ms(build)
    for package, name in (("jax", "JAX"), ("torch", "PyTorch LocalTensor")):
        for ranks in (256, 1024):
            row = f"MLP forward, {ranks} ranks"
            if package in lacking:
                print_row(row, f"{ours[ranks]:.3f} ms", f"{name}: not installed ({lacking[package]})", "")
                continue
            try:
                done = subprocess.run([python, HERE / "peers_mlp.py", package, str(ranks)],
                                      capture_output=True, text=True, timeout=5 * SECONDS)
            except subprocess.TimeoutExpired:
                print_row(row, f"{ours[ranks]:.3f} ms", f"{name}: over {5 * SECONDS} s", "")
                continue
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["failed"])[-1]
                print_row(row, f"{ours[ranks]:.3f} ms", f"{name}: {reason}", "")
                continue
            version, cpu, _ = done.stdout.split()[-3:]
            print_row(row, f"{ours[ranks]:.3f} ms", f"{name} {version}: {float(cpu):.1f} ms",
                      f"{float(cpu) / ours[ranks]:.1f}")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    work = build / "bench/peers"
    work.mkdir(parents=True, exist_ok=True)
    processor = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processor})
    print(f"processor time, all on processor {processor}; load before: {os.getloadavg()[0]:.1f}; {FLAGS}\n")
    print("| work | ours | peer | peer / ours |\n|---|---|---|---|")
    beside_simgrid(build, work)
    beside_python(build, work)


if __name__ == "__main__":
    main()
