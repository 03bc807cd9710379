#!/usr/bin/env python3
"""Writes the sharding rules that an installed PyTorch claims as a rule table (docs/check_ops.md).

    python3 tools/export_torch_rules.py > torch_rules.jsonl
    shardproof check-ops --rules torch_rules.jsonl

For each call below and each placement of its inputs, the op runs on DTensors of a fake process group.
A row holds the placements that DTensor kept without a redistribution of an input, and those of the
results. A redistribution counts also if it needs no communication, as R -> S(0) does. An op that
communicates by itself has a row only where its result does not fit its placements. Calls vary sizes
that are not cut, empty dim lists, in-place forms and 2-D meshes, because wrong rules show only there. On
2-D meshes the only partials are P(sum). Prints its progress to stderr. Needs torch; written for 2.15.
"""
import argparse
import contextlib
import itertools
import json
import sys


def placement_text(placement):
    """Returns the text of a placement, or None for one that a table cannot hold (mask partials)."""
    name = type(placement).__name__
    if name == "Replicate":
        return "R"
    if name == "Shard":
        return f"S({placement.dim})"
    if name == "_StridedShard":
        return f"S({placement.dim}, split={placement.split_factor})"
    if name == "Partial":
        return f"P({placement.reduce_op})".replace("product", "prod")
    return None


# op, attrs, shapes of the float inputs (an "i" marks indices), the call.
def calls(torch):
    F = torch.nn.functional
    aten = torch.ops.aten
    return [
        ("aten.mm", {}, [[4, 6], [6, 8]], lambda x, w: aten.mm(x, w)),
        ("aten.add.Tensor", {}, [[5, 6], [5, 6]], lambda x, y: x + y),
        ("aten.mul.Tensor", {}, [[5, 6], [5, 6]], lambda x, y: x * y),
        ("aten.maximum", {}, [[5, 6], [5, 6]], torch.maximum),
        ("aten.sum.dim_IntList", {"dim": [0]}, [[5, 6]], lambda x: x.sum([0])),
        ("aten.sum.dim_IntList", {"dim": [], "keepdim": True}, [[4]], lambda x: x.sum([], keepdim=True)),
        ("aten.amax", {"dim": [], "keepdim": True}, [[4]], lambda x: x.amax((), keepdim=True)),
        ("aten.mean.dim", {"dim": [0]}, [[5, 6]], lambda x: x.mean([0])),
        ("aten.argmax", {"dim": 1}, [[3, 3]], lambda x: x.argmax(1)),
        ("aten._softmax", {"dim": 1}, [[4, 6]], lambda x: x.softmax(1)),
        ("aten.cumsum", {"dim": 0}, [[5, 6]], lambda x: x.cumsum(0)),
        ("aten.gather", {"dim": 1}, [[4, 4], "i", [2, 4]], lambda x, i: x.gather(1, i)),
        ("aten.mse_loss", {}, [[4], [4]], F.mse_loss),
        ("aten.mse_loss_backward", {"reduction": 1}, [[], [4], [4]],
         lambda g, x, y: aten.mse_loss_backward(g, x, y, 1)),
        ("aten.smooth_l1_loss_backward", {"reduction": 1, "beta": 1.0}, [[], [4], [4]],
         lambda g, x, y: aten.smooth_l1_loss_backward(g, x, y, 1, 1.0)),
        ("aten.huber_loss_backward", {"reduction": 1, "delta": 1.0}, [[], [4], [4]],
         lambda g, x, y: aten.huber_loss_backward(g, x, y, 1, 1.0)),
        ("aten.soft_margin_loss_backward", {"reduction": 1}, [[], [4], [4]],
         lambda g, x, y: aten.soft_margin_loss_backward(g, x, y, 1)),
        ("aten.fill_.Scalar", {"value": 3}, [[4]], lambda x: x.fill_(3)),
        ("aten.zero_", {}, [[4]], lambda x: x.zero_()),
        ("aten.histc", {"bins": 4, "min": -1, "max": 1}, [[5, 6]], lambda x: x.histc(4, -1, 1)),
        ("aten.special_erfcx", {}, [[4]], torch.special.erfcx),
        ("aten._foreach_mul.Scalar", {"scalar": 2}, [[4], [5, 6]], lambda x, y: torch._foreach_mul([x, y], 2)),
        ("aten.view", {"size": [24]}, [[4, 6]], lambda x: x.view(24)),
    ]


@contextlib.contextmanager
def redistributions():
    """Yields a list that grows by each input that DTensor places anew before it runs an op."""
    from torch.distributed.tensor import _dispatch
    from torch.utils import _pytree

    original = _dispatch.OpDispatcher.redistribute_local_args
    found = []

    def counted(op_info, schema, *rest):
        wanted = (tuple(_pytree.tree_leaves(schema.args_schema))
                  if op_info.args_tree_spec is not None else schema.args_schema)
        for given, placed in zip(op_info.flat_args_schema, wanted):
            if type(given).__name__ == "DTensorSpec" and given != placed:
                found.append((given, placed))
        return original(op_info, schema, *rest)

    _dispatch.OpDispatcher.redistribute_local_args = staticmethod(counted)
    try:
        yield found
    finally:
        _dispatch.OpDispatcher.redistribute_local_args = staticmethod(original)


def has_its_shard(result):
    """Returns whether this rank's part of a result has the shape that the placements state."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, _ = compute_local_shape_and_global_offset(result.shape, result.device_mesh, result.placements)
    return tuple(result.to_local().shape) == tuple(shape)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("export_torch_rules.py needs PyTorch, which this Python does not have; "
                 "install it with `pip install torch`, or use the Python that has it")
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    for sizes in ([2], [2, 2]):
        ranks = 1
        for size in sizes:
            ranks *= size
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        mesh = init_device_mesh("cpu", tuple(sizes))
        partials = ("sum", "avg", "max", "min") if len(sizes) == 1 else ("sum",)
        for op, attrs, entries, run in calls(torch):
            print(f"{op} on a mesh {sizes}", file=sys.stderr)
            shapes, dtypes, is_index = [], [], False
            for entry in entries:
                if entry == "i":
                    is_index = True
                    continue
                shapes.append(entry)
                dtypes.append("i64" if is_index else "f32")
                is_index = False
            options = []
            for shape, dtype in zip(shapes, dtypes):
                one = [Replicate()] + [Shard(d) for d in range(len(shape))]
                if dtype == "f32":
                    one += [Partial(o) for o in partials]
                options.append(list(itertools.product(one, repeat=len(sizes))))
            for chosen in itertools.product(*options):
                write_row(torch, DTensor, mesh, sizes, op, attrs, shapes, dtypes, chosen, run)
        dist.destroy_process_group()


def write_row(torch, DTensor, mesh, sizes, op, attrs, shapes, dtypes, chosen, run):
    inputs = []
    try:
        for shape, dtype, placements in zip(shapes, dtypes, chosen):
            whole = torch.zeros(shape, dtype=torch.int64 if dtype == "i64" else torch.float32)
            local = whole
            for axis, placement in enumerate(placements):
                if type(placement).__name__ == "Shard":
                    local = local.chunk(sizes[axis], placement.dim)[0]
            inputs.append(DTensor.from_local(local.contiguous(), mesh, placements, run_check=False,
                                             shape=whole.shape, stride=whole.stride()))
        from torch.distributed.tensor.debug import CommDebugMode
        with CommDebugMode() as calls_made, redistributions() as placed_anew:
            result = run(*inputs)
    except Exception:  # a placement that DTensor refuses is no claim
        return
    if placed_anew:
        return
    results = result if isinstance(result, (tuple, list)) else (result,)
    if calls_made.get_total_counts() > 0 and all(has_its_shard(r) for r in results):
        return  # the result is not that of the local inputs alone
    out = [[placement_text(p) for p in r.placements] for r in results]
    if any(text is None for tensor in out for text in tensor):
        return
    json.dump({"op": op, "attrs": attrs,
               "inputs": [{"shape": s, "dtype": d} for s, d in zip(shapes, dtypes)],
               "mesh": sizes, "in": [[placement_text(p) for p in c] for c in chosen], "out": out},
              sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
