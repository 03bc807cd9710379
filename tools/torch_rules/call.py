"""A call of an op of torch, as a row of a rule table states it."""
import dataclasses
import math


@dataclasses.dataclass
class Call:
    """`run(tensors)` calls the op on tensors of these shapes and dtypes; the op may write to them."""
    op: str          # "aten.sum.dim_IntList"
    attrs: dict      # arguments that are not tensors, by their names in torch's signature
    tensors: list    # numbers of one device
    run: object

    def key(self):
        return (self.op, repr(self.attrs), [(tuple(t.shape), t.dtype) for t in self.tensors])


class NotInATable(Exception):
    """An argument that a rule table cannot hold, such as an infinity or a complex number."""


def attribute(value):
    """Returns the JSON value of an argument that holds no tensor."""
    import torch

    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotInATable
        return value
    if isinstance(value, (list, tuple)):
        return [attribute(v) for v in value]
    if isinstance(value, torch.dtype):
        return str(value)
    raise NotInATable
