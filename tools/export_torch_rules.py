#!/usr/bin/env python3
"""Writes the sharding rules that an installed PyTorch claims as a rule table (docs/check_ops.md).

    python3 tools/export_torch_rules.py > torch_rules.jsonl
    shardproof check-ops --rules torch_rules.jsonl --skip-unknown

Calls are those of torch_rules/listed_calls.py. With the package expecttest, they are also those that
PyTorch's own samples of its ops make, forward and backward, of all ops for which DTensor has a rule.
Each call runs on DTensors with each placement of its inputs. A row holds the placements that DTensor
kept without a redistribution of an input, and those of the results. A redistribution counts also if
it needs no communication, as R -> S(0) does. An op that communicates by itself has a row only where
its result does not fit its placements. With --observe each row also states whether PyTorch's values
on simulated ranks are those of one device ("about": "right" or "wrong"). All ops take about an hour
on one core; --op selects some. Prints its progress to stderr. Needs torch; written for 2.15.
"""
import argparse
import json
import re
import sys


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="", metavar="REGEX", help="only ops whose name matches")
    parser.add_argument("--observe", action="store_true", help="run each row, and write whether its values are right")
    parser.add_argument("--listed", action="store_true", help="only the calls of torch_rules/listed_calls.py")
    parser.add_argument("--calls", type=int, default=2, help="calls of each op among PyTorch's samples (2)")
    parser.add_argument("--rows", type=int, default=100,
                        help="placements of the inputs tried for a call and a mesh, drawn if there are more (100)")
    parser.add_argument("--mesh", action="append", metavar="SIZES",
                        help="sizes of the axes; may be given several times (2 and 2x2)")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        import torch
    except ImportError:
        sys.exit("export_torch_rules.py needs PyTorch, which this Python does not have; "
                 "install it with `pip install torch`, or use the Python that has it")
    from torch_rules import listed_calls, placed_calls, sampled_calls

    calls = listed_calls.calls()
    if not options.listed:
        calls += sampled_calls.calls(options.calls)
    calls = [call for call in calls if re.search(options.op, call.op)]
    for mesh in options.mesh or ["2", "2x2"]:
        sizes = [int(size) for size in mesh.split("x")]
        with placed_calls.Meshes(sizes) as meshes:
            for call in calls:
                print(f"{call.op} on a mesh {sizes}", file=sys.stderr)
                for placements in placed_calls.placements_of(call, len(sizes), options.rows):
                    try:
                        write_row(placed_calls.claim(call, meshes, placements, options.observe), call, sizes)
                    except Exception as error:
                        print(f"no row of {call.op} with {placements}: {error}", file=sys.stderr)


def write_row(claim, call, sizes):
    if claim is None:
        return
    row = {"about": claim.about} if claim.about else {}
    row |= {"op": call.op, "attrs": call.attrs,
            "inputs": [{"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")} for t in call.tensors],
            "mesh": sizes, "in": claim.inputs, "out": claim.results}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
