"""Calls that PyTorch's samples leave out: empty dim lists, fills, indices smaller than the input."""
import torch

from torch_rules.call import Call


def listed(op, attrs, shapes, run):
    """Makes a call on zeros; a shape in a tuple is that of an index."""
    tensors = [torch.zeros(s[0] if isinstance(s, tuple) else s,
                           dtype=torch.int64 if isinstance(s, tuple) else torch.float32) for s in shapes]
    return Call(op, attrs, tensors, lambda given: run(*given))


def calls():
    F = torch.nn.functional
    aten = torch.ops.aten
    return [
        listed("aten.mm", {}, [[4, 6], [6, 8]], aten.mm),
        listed("aten.add.Tensor", {}, [[5, 6], [5, 6]], lambda x, y: x + y),
        listed("aten.mul.Tensor", {}, [[5, 6], [5, 6]], lambda x, y: x * y),
        listed("aten.maximum", {}, [[5, 6], [5, 6]], torch.maximum),
        listed("aten.sum.dim_IntList", {"dim": [0]}, [[5, 6]], lambda x: x.sum([0])),
        listed("aten.sum.dim_IntList", {"dim": [], "keepdim": True}, [[4]], lambda x: x.sum([], keepdim=True)),
        listed("aten.amax", {"dim": [], "keepdim": True}, [[4]], lambda x: x.amax((), keepdim=True)),
        listed("aten.mean.dim", {"dim": [0]}, [[5, 6]], lambda x: x.mean([0])),
        listed("aten.argmax", {"dim": 1}, [[3, 3]], lambda x: x.argmax(1)),
        listed("aten._softmax", {"dim": 1}, [[4, 6]], lambda x: x.softmax(1)),
        listed("aten.cumsum", {"dim": 0}, [[5, 6]], lambda x: x.cumsum(0)),
        listed("aten.gather", {"dim": 1}, [[4, 4], ([2, 4],)], lambda x, i: x.gather(1, i)),
        listed("aten.mse_loss", {}, [[4], [4]], F.mse_loss),
        listed("aten.mse_loss_backward", {"reduction": 1}, [[], [4], [4]],
               lambda g, x, y: aten.mse_loss_backward(g, x, y, 1)),
        listed("aten.smooth_l1_loss_backward", {"reduction": 1, "beta": 1.0}, [[], [4], [4]],
               lambda g, x, y: aten.smooth_l1_loss_backward(g, x, y, 1, 1.0)),
        listed("aten.huber_loss_backward", {"reduction": 1, "delta": 1.0}, [[], [4], [4]],
               lambda g, x, y: aten.huber_loss_backward(g, x, y, 1, 1.0)),
        listed("aten.soft_margin_loss_backward", {"reduction": 1}, [[], [4], [4]],
               lambda g, x, y: aten.soft_margin_loss_backward(g, x, y, 1)),
        listed("aten.fill_.Scalar", {"value": 3}, [[4]], lambda x: x.fill_(3)),
        listed("aten.zero_", {}, [[4]], lambda x: x.zero_()),
        listed("aten.histc", {"bins": 4, "min": -1, "max": 1}, [[5, 6]], lambda x: x.histc(4, -1, 1)),
        listed("aten.special_erfcx", {}, [[4]], torch.special.erfcx),
        listed("aten._foreach_mul.Scalar", {"scalar": 2}, [[4], [5, 6]],
               lambda x, y: torch._foreach_mul([x, y], 2)),
        listed("aten.view", {"size": [24]}, [[4, 6]], lambda x: x.view(24)),
    ]
