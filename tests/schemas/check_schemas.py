#!/usr/bin/env python3
"""Validates scenario files and reports against the schemas, with the public package jsonschema.

usage: check_schemas.py SOURCE_DIR PROGRAM

Checks: the schemas themselves; every scenario of the tree; reports of runs with findings, missed
expectations, bad files and several backends; that wrong documents are refused."""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

source, program = pathlib.Path(sys.argv[1]), sys.argv[2]
failures = []
counts = {"scenarios": 0, "reports": 0, "refused": 0}


def read_jsonc(path):
    """Reads JSON with comments. Strings are matched first, so that "//" in one stays."""
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
    return json.loads(pattern.sub(lambda m: m.group(0) if m.group(0)[0] == '"' else " ", text))


def load_validator(name):
    schema = json.loads((source / "schemas" / name).read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def check(validator, document, label):
    for error in validator.iter_errors(document):
        failures.append(f"{label}: /{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
        return


def refuse(validator, document, label):
    counts["refused"] += 1
    if validator.is_valid(document):
        failures.append(f"{label}: the schema accepts it")


def run_report(words, folder):
    path = pathlib.Path(folder) / f"report{counts['reports']}.json"
    ran = subprocess.run([program, "run", *words, "--json", str(path)], cwd=source,
                         capture_output=True, text=True)
    if not path.exists():
        failures.append(f"run {' '.join(words)} wrote no report: {ran.stderr}")
        return None
    counts["reports"] += 1
    return json.loads(path.read_text())


def key_paths(node, path=()):
    """Yields the path of each object of a document."""
    if isinstance(node, dict):
        yield path
        for key, value in node.items():
            yield from key_paths(value, path + (key,))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from key_paths(value, path + (index,))


def at(node, path):
    for step in path:
        node = node[step]
    return node


scenario, report = load_validator("scenario.json"), load_validator("report.json")

for path in sorted(source.glob("scenarios/**/*.json")) + sorted(source.glob("tests/scenarios/*.json")):
    document = read_jsonc(path)
    if "model" in document:  # refused by this version
        continue
    counts["scenarios"] += 1
    check(scenario, document, path.relative_to(source))

good = read_jsonc(source / "scenarios/demo/planted_failure.json")
for key, wrong in [("version", 2), ("mesh", 4), ("tensors", []), ("program", "y = x"),
                   ("mehs", "tp=2"), ("dtype", "bf17"), ("expect", {"verdict": "deadlok"}),
                   ("expect", {"collectives": {"all_redcue": 1}}),
                   ("tensors", {"x": {"shape": [4], "placement": "tp:R"}}),
                   ("tensors", {"x": {"fill": "ones"}}), ("faults", ["hung(rank=1, call=1)"])]:
    refuse(scenario, {**good, key: wrong}, f"{key}: {wrong}")

with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "bad.json").write_text('{"version": 1, "mehs": "tp=2",\n "mesh": 4}')
    (pathlib.Path(folder) / "torn.json").write_text('{"version": 1, "mesh": ')
    (pathlib.Path(folder) / "missed.json").write_text(
        '{"version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}}, "program": ["y = x * 2"],'
        ' "topology": "flat(latency=\'5 us\', bandwidth=\'50 GB/s\')",'
        ' "sweep": [{"expect": {"values": {"y": 99}}}, {"expect": {"verdict": "deadlock"}}]}')
    for words in [["scenarios/corpus"], ["scenarios/demo"], [folder],
                  ["scenarios/corpus/collectives", "--backend", "local", "--seed", "7"]]:
        document = run_report(words, folder)
        if document is not None:
            check(report, document, f"report of {' '.join(words)}")
    document = run_report(["scenarios/demo/planted_failure.json"], folder)
    # A key that the schema does not name is an error at every place of the report.
    for path in key_paths(document):
        changed = copy.deepcopy(document)
        at(changed, path)["unknown key"] = 1
        refuse(report, changed, f"an unknown key at {path}")

for path in sorted((source / "tests/approvals").glob("**/*json.txt")):
    document = json.loads(path.read_text())
    if document.get("format") == "shardproof report":
        counts["reports"] += 1
        check(report, document, path.relative_to(source))

print(", ".join(f"{count} {what}" for what, count in counts.items()))
for failure in failures:
    print(failure)
sys.exit(1 if failures or counts["reports"] < 8 else 0)
