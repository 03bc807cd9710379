"""Runs calls on DTensors of all ranks in one process, and tells what DTensor claims of them."""
import contextlib
import dataclasses
import itertools
import random

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils import _pytree

SIZES_OF_INPUT = ("input_sizes", "input_size", "self_sizes")
RANDOM = ("rand", "dropout", "bernoulli", "normal", "uniform", "exponential", "cauchy", "geometric", "multinomial",
          "poisson", "rrelu", "empty")


@dataclasses.dataclass
class Claim:
    inputs: list   # texts of the placements of each input, one for each axis
    results: list
    about: str     # "right", "wrong: ..", or "" if its values were not observed


class Meshes:
    """A mesh on which this process is rank 0 of a fake group, and one of which it simulates all ranks."""

    def __init__(self, sizes):
        self.sizes = sizes
        self.ranks = torch.Size(sizes).numel()

    def __enter__(self):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=self.ranks)
        self.of_rank_0 = init_device_mesh("cpu", tuple(self.sizes))
        with LocalTensorMode(self.ranks):
            self.of_all = init_device_mesh("cpu", tuple(self.sizes))
        return self

    def __exit__(self, *_):
        dist.destroy_process_group()


def placements_of(call, axes, most):
    """Returns placements of all inputs on all axes; up to `most` of them, drawn. P on two axes is P(sum) only."""
    partials = ("sum", "avg", "max", "min") if axes == 1 else ("sum",)
    options = []
    for tensor in call.tensors:
        one = [Replicate()] + [Shard(d) for d in range(tensor.dim())]
        if tensor.is_floating_point():
            one += [Partial(o) for o in partials]
        options.append(list(itertools.product(one, repeat=axes)))
    count = 1
    for one in options:
        count *= len(one)
    if count <= most:
        return itertools.product(*options)
    draw = random.Random(repr(call.key()))
    return [tuple(draw.choice(one) for one in options) for _ in range(most)]


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


def parts_of(whole, sizes, placements):
    """Returns the local tensor of each rank. Parts of a partial are drawn; their reduction is `whole`."""
    parts = [whole]
    for n, placement in zip(sizes, placements):
        parts = [part for one in parts for part in parts_on_axis(one, n, placement)]
    return [part.contiguous().clone() for part in parts]


def parts_on_axis(whole, n, placement):
    if placement.is_replicate():
        return [whole] * n
    if placement.is_shard():
        chunks = list(whole.chunk(n, placement.dim)) if whole.shape[placement.dim] > 0 else [whole]
        empty = whole.narrow(placement.dim, 0, 0)
        return (chunks + [empty] * n)[:n]
    moved = [torch.randn_like(whole) for _ in range(n - 1)]
    if placement.reduce_op in ("sum", "avg"):
        scale = n if placement.reduce_op == "avg" else 1
        return moved + [whole * scale - sum(moved)]
    sign = -1 if placement.reduce_op == "max" else 1
    holder = torch.randint(n, whole.shape)
    return [torch.where(holder == r, whole, whole + sign * (1 + torch.rand_like(whole))) for r in range(n)]


def whole_of(parts, sizes, placements):
    """Returns the tensor whose parts these are; None if replicas differ or shapes do not fit together."""
    for n, placement in zip(reversed(sizes), reversed(placements)):
        parts = [None if any(p is None for p in parts[i:i + n]) else whole_on_axis(parts[i:i + n], placement)
                 for i in range(0, len(parts), n)]
    return parts[0]


def whole_on_axis(parts, placement):
    if placement.is_shard():
        d = placement.dim
        if any(p.shape[:d] + p.shape[d + 1:] != parts[0].shape[:d] + parts[0].shape[d + 1:] for p in parts):
            return None
        return torch.cat(parts, d)
    if any(part.shape != parts[0].shape for part in parts):
        return None
    if placement.is_replicate():
        return parts[0] if all(is_equal(part, parts[0]) for part in parts) else None
    if parts[0].is_complex() and placement.reduce_op in ("max", "min"):
        return None
    stacked = torch.stack(parts)
    return {"sum": lambda: stacked.sum(0), "avg": lambda: stacked.mean(0), "max": lambda: stacked.amax(0),
            "min": lambda: stacked.amin(0), "product": lambda: stacked.prod(0)}[placement.reduce_op]()


def is_equal(found, expected):
    if found is None or found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not (found.is_floating_point() or found.is_complex()):
        return torch.equal(found, expected)
    close = 1e-9 if found.dtype in (torch.float64, torch.complex128) else 1e-3
    return torch.allclose(found, expected, rtol=close, atol=close, equal_nan=True)


class PlacedAnew(Exception):
    """DTensor redistributes an input of the call."""


@contextlib.contextmanager
def no_redistributions():
    """Lets DTensor raise PlacedAnew where it places an input anew before it runs an op."""
    from torch.distributed.tensor import _dispatch

    original = _dispatch.OpDispatcher.redistribute_local_args

    def refuse(op_info, schema, *rest):
        wanted = (tuple(_pytree.tree_leaves(schema.args_schema))
                  if op_info.args_tree_spec is not None else schema.args_schema)
        for given, placed in zip(op_info.flat_args_schema, wanted):
            if type(given).__name__ == "DTensorSpec" and given != placed:
                raise PlacedAnew
        return original(op_info, schema, *rest)

    _dispatch.OpDispatcher.redistribute_local_args = staticmethod(refuse)
    try:
        yield
    finally:
        _dispatch.OpDispatcher.redistribute_local_args = staticmethod(original)


def run_placed(call, mesh, placements, tensors, locals_of_ranks):
    """Returns the results of a call as DTensors. Throws PlacedAnew, or what DTensor throws."""
    inputs = [DTensor.from_local(local, mesh, p, run_check=False, shape=t.shape, stride=t.contiguous().stride())
              for t, p, local in zip(tensors, placements, locals_of_ranks)]
    with no_redistributions():
        return tensors_of(call.run(inputs))


def tensors_of(result):
    return [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def run_on_all_ranks(call, meshes, placements, tensors):
    """Returns for each result its DTensor and the local tensors of all ranks."""
    parts = [parts_of(t, meshes.sizes, p) for t, p in zip(tensors, placements)]
    with LocalTensorMode(meshes.ranks):
        locals_of_ranks = [LocalTensor(dict(enumerate(one))) for one in parts]
        results = run_placed(call, meshes.of_all, placements, tensors, locals_of_ranks)
        return [(r, [r._local_tensor._local_tensors[rank] for rank in range(meshes.ranks)]) for r in results]


def communicates(call, meshes, placements, tensors):
    """Returns whether the op communicates by itself, and whether its results fit their placements then."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as communication:
        locals_of_rank_0 = [parts_of(t, meshes.sizes, p)[0] for t, p in zip(tensors, placements)]
        results = run_placed(call, meshes.of_rank_0, placements, tensors, locals_of_rank_0)
    fits = all(tuple(r.to_local().shape)
               == tuple(compute_local_shape_and_global_offset(r.shape, r.device_mesh, r.placements)[0])
               for r in results)
    return communication.get_total_counts() > 0, fits


def claim(call, meshes, placements, observe):
    """Returns what DTensor claims of a call on placed inputs, or None for no claim."""
    tensors = [numbers(t, 0) for t in call.tensors]
    try:
        locals_of_rank_0 = [parts_of(t, meshes.sizes, p)[0] for t, p in zip(tensors, placements)]
        results = run_placed(call, meshes.of_rank_0, placements, tensors, locals_of_rank_0)
        if not results or not all(isinstance(r, DTensor) for r in results):
            return None
        communicated, fits = communicates(call, meshes, placements, tensors)
    except Exception:  # a placement that DTensor refuses or changes is no claim
        return None
    if communicated and fits:
        return None  # the result is not that of the local inputs alone
    texts = [[placement_text(p) for p in r.placements] for r in results]
    if any(text is None for tensor in texts for text in tensor):
        return None
    about = observed(call, meshes, placements) if observe else ""
    return Claim([[placement_text(p) for p in one] for one in placements], texts, about)


def observed(call, meshes, placements):
    """Compares the values of the ranks with those of one device, on up to three draws in float64."""
    if any(word in call.op for word in RANDOM):
        return ""
    # Simulated ranks share the sizes that DTensor writes into a call; real ranks have their own.
    if any(name in SIZES_OF_INPUT for name in call.attrs) and any(
            len({local.shape for local in parts_of(t, meshes.sizes, p)}) > 1
            for t, p in zip(call.tensors, placements)):
        return ""
    plain = (Replicate, Shard, Partial)
    about = ""
    for draw in range(3):
        torch.manual_seed(draw)
        tensors = [numbers(t, draw) for t in call.tensors]
        try:
            expected = tensors_of(call.run([t.clone() for t in tensors]))
        except Exception:  # numbers outside of the op's domain
            continue
        try:
            results = run_on_all_ranks(call, meshes, placements, tensors)
        except Exception:  # simulated ranks may fail where real ones do not
            return ""
        for index, ((result, parts), whole) in enumerate(zip(results, expected, strict=True)):
            if not all(type(p) in plain for p in result.placements):
                return ""  # strided shards are not put together here
            if not is_equal(whole_of(parts, meshes.sizes, result.placements), whole):
                return f"wrong: result {index} differs from one device"
        about = "right"
    return about


def numbers(tensor, draw):
    """Returns the numbers of a draw in float64: those of the call, then normal ones of both signs."""
    if not tensor.is_floating_point():
        return tensor
    wide = tensor.to(torch.float64)
    return wide if draw == 0 else torch.randn_like(wide)
