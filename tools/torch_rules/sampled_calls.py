"""Calls of all ops for which DTensor has a rule, as PyTorch's samples of its ops make them."""
import sys

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_rules.call import Call, NotInATable, attribute

MOST_NUMBERS = 150  # of all tensors of a call
MOST_TENSORS = 5
# Arguments that change no number.
IGNORED = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "implicit"}


def ops_with_rules():
    from torch.distributed.tensor import DTensor

    rules = DTensor._op_dispatcher.sharding_propagator
    found = set()
    for table in ("op_to_rules", "op_strategy_funcs", "op_single_dim_strategy_funcs"):
        found |= set(getattr(rules, table, {}))
    return found


class Recorder(TorchDispatchMode):
    """Keeps up to `most` different calls of each op in `wanted`."""

    def __init__(self, wanted, most):
        super().__init__()
        self.wanted, self.most, self.calls = wanted, most, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.wanted:
            try:
                self.keep(func, args, kwargs)
            except NotInATable:
                pass
        return func(*args, **kwargs)

    def keep(self, func, args, kwargs):
        call = call_of(func, args, kwargs)
        kept = self.calls.setdefault(call.op, [])
        if len(kept) < self.most and all(call.key() != other.key() for other in kept):
            kept.append(call)


def call_of(func, args, kwargs):
    """Returns the call with its own copies of the tensors."""
    schema = func._schema
    attrs, tensors = {}, []
    for index, argument in enumerate(schema.arguments):
        if index < len(args):
            value = args[index]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            continue
        if argument.name in IGNORED:
            continue
        if argument.is_out:
            raise NotInATable
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif value is None and "Tensor" in str(argument.type):
            attrs[argument.name] = None
        elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            if any(v is None for v in value):  # the indices of aten.index
                numbers = iter(range(len(tensors), len(tensors) + len(value)))
                attrs[argument.name] = [None if v is None else f"x{next(numbers)}" for v in value]
            tensors += [v for v in value if v is not None]
        else:
            attrs[argument.name] = attribute(value)
    usable = all(type(t) is torch.Tensor and t.layout == torch.strided and not t.is_complex() and not t.is_quantized
                 for t in tensors)
    if (not usable or not tensors or len(tensors) > MOST_TENSORS
            or sum(t.numel() for t in tensors) > MOST_NUMBERS or any(t.dim() > 4 for t in tensors)):
        raise NotInATable
    flat, shape = _pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
    if [id(flat[i]) for i in places] != [id(t) for t in tensors]:
        raise NotInATable  # a keyword out of the order of the signature

    def run(given):
        leaves = list(flat)
        for place, tensor in zip(places, given):
            leaves[place] = tensor
        args, kwargs = _pytree.tree_unflatten(leaves, shape)
        return func(*args, **kwargs)

    copies = [t.detach().clone() for t in tensors]
    for place in places:
        flat[place] = None
    name = func._schema.name.replace("aten::", "aten.")
    if func._overloadname != "default":
        name += "." + func._overloadname
    return Call(name, attrs, copies, run)


def calls(most):
    """Returns up to `most` calls of each op, in the order of the ops' names."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        print(f"no samples of PyTorch ({error}); only the listed calls", file=sys.stderr)
        return []
    recorder = Recorder(ops_with_rules(), most)
    for number, op in enumerate(op_db):
        if number % 50 == 0:
            print(f"samples of op {number} of {len(op_db)}", file=sys.stderr)
        for dtype in (torch.float32, torch.int64, torch.bool):
            if dtype in op.supported_dtypes("cpu"):
                sample(op, dtype, recorder)
    return [call for name in sorted(recorder.calls) for call in recorder.calls[name]]


def sample(op, dtype, recorder):
    """Runs an op, its form in place and its gradient on its samples."""
    is_float = dtype == torch.float32
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=is_float and op.supports_autograd))[:30]
    except Exception:  # samples that this build of torch cannot make
        return
    for one in samples:
        for run in (op.op, op.inplace_variant):
            if run is None:
                continue
            try:
                taken = _pytree.tree_map(
                    lambda t: t.detach().clone().requires_grad_(t.requires_grad and run is op.op)
                    if isinstance(t, torch.Tensor) else t, (one.input, one.args, one.kwargs))
                with recorder:
                    result = run(taken[0], *taken[1], **taken[2])
                    for leaf in _pytree.tree_leaves(result):
                        if run is op.op and isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                            leaf.sum().backward(retain_graph=True)
            except Exception:  # a sample for another device, or one that is meant to fail
                pass
