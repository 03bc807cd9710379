#!/usr/bin/env python3
"""Writes gradients.jsonl: gradients of single ops by torch autograd on CPU.

Usage: python3 make_gradients.py > gradients.jsonl   (needs torch)

A row has the op and attributes by their names here, the inputs, the cotangents `dy` of the float
results, `y`, and `grads`: the gradient of sum_o <y_o, dy_o> by each input, null for one without.
Numbers are row-major; complex ones are pairs of real and imaginary part.
"""
import itertools
import json

import torch
import torch.nn.functional as F

DTYPES = {'f32': torch.float32, 'f64': torch.float64, 'bf16': torch.bfloat16,
          'c64': torch.complex64, 'c128': torch.complex128, 'i64': torch.int64, 'bool': torch.bool}
COUNT = itertools.count()


def numbers(kind, count, seed):
    """The fills of README.md; f repeats values, so that extremes tie."""
    out = []
    for i in range(count):
        f = ((37 * i + 11 * seed) % 23 - 11) / 4
        if kind == 'f':
            out.append(f)
        elif kind == 'tie':
            out.append(((7 * i + 3 * seed) % 3 - 1) * 1.0)
        elif kind == 'pos':
            out.append(((37 * i + 11 * seed) % 23 + 1) / 4)
        elif kind == 'unit':
            out.append(f / 4)
        elif kind == 'turn':
            out.append(((37 * i + 11 * seed) % 22 - 10.5) / 4)
        elif kind == 'small':
            out.append(((37 * i + 11 * seed) % 22 - 10.5) / 4096)
        elif kind == 'share':
            out.append(((37 * i + 11 * seed) % 17) / 16)
        elif kind == 'inside':
            out.append(((37 * i + 11 * seed) % 15 + 1) / 16)
        elif kind == 'zeros':
            out.append(0.0)
        elif kind == 'b':
            out.append((5 * i + seed) % 3 == 0)
        elif kind[0] == 'i':
            out.append((7 * i + 3 * seed) % int(kind[1:]))
        else:
            raise ValueError(kind)
    return out


def make(kind, dtype, shape, seed):
    count = 1
    for size in shape:
        count *= size
    if dtype in ('c64', 'c128'):
        parts = numbers(kind, 2 * count, seed)
        values = [complex(parts[2 * i], parts[2 * i + 1]) for i in range(count)]
    else:
        values = numbers(kind, count, seed)
    return torch.tensor(values, dtype=DTYPES[dtype]).reshape(shape)


def flat(tensor):
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    def text(x):
        if x != x:
            return 'nan'
        if x in (float('inf'), float('-inf')):
            return 'inf' if x > 0 else '-inf'
        return int(x) if x == int(x) and abs(x) < 1e15 else float('%.9g' % x)
    return [text(float(x)) for x in tensor.detach().double().flatten().tolist()]


def row(op, fn, inputs, attrs=None):
    """inputs: (kind, dtype, shape) each; kind 'f~' is one by which torch has no gradient.

    A number among them is a number of the program.
    """
    attrs = attrs or {}
    tensors = []
    seed = next(COUNT) % 7
    for k, given in enumerate(inputs):
        if not isinstance(given, tuple):
            tensors.append(given)
            continue
        kind, dtype, shape = given
        x = make(kind.rstrip('~'), dtype, shape, k + seed)
        if not kind.endswith('~') and (x.is_floating_point() or x.is_complex()):
            x.requires_grad_(True)
        tensors.append(x)
    results = fn(*tensors, **attrs)
    results = results if isinstance(results, (tuple, list)) else (results,)
    cotangents = []
    for o, y in enumerate(results):
        if not (y.is_floating_point() or y.is_complex()):
            cotangents.append(None)
            continue
        dtype = {v: k for k, v in DTYPES.items()}[y.dtype]
        dy = make('f', dtype, list(y.shape), 7 + o)
        cotangents.append({'v': flat(dy)})
    wrt = [x for x in tensors if torch.is_tensor(x) and x.requires_grad]
    smooth = any(y.requires_grad for y in results)
    grads = iter(torch.autograd.grad([y for y in results if y.requires_grad],
                                     wrt,
                                     [make('f', {v: k for k, v in DTYPES.items()}[y.dtype],
                                           list(y.shape), 7 + o)
                                      for o, y in enumerate(results) if y.requires_grad],
                                     allow_unused=True) if smooth else [])
    out = []
    for x in tensors:
        g = next(grads) if smooth and torch.is_tensor(x) and x.requires_grad else None
        out.append(None if g is None else {'v': flat(g)})
    print(json.dumps({
        'id': 'GR-%04d' % row.count, 'op': op, 'attrs': attrs, 'results': len(results),
        'inputs': [{'dtype': given[1], 'shape': given[2], 'v': flat(x)} if torch.is_tensor(x)
                   else {'dtype': 'f64', 'shape': [], 'v': [x], 'number': True}
                   for x, given in zip(tensors, inputs)],
        'dy': cotangents, 'y': [{'shape': list(y.shape), 'v': flat(y)} for y in results],
        'grads': out}, separators=(',', ':')))
    row.count += 1


row.count = 0
SHAPES = [[5, 3], [4], [2, 1, 3], [0, 3], []]


def unary():
    kinds = {
        'neg': 'f', 'abs': 'f', 'exp': 'f', 'log': 'pos', 'sqrt': 'pos', 'rsqrt': 'pos',
        'square': 'f', 'reciprocal': 'pos', 'sin': 'f', 'cos': 'f', 'tanh': 'f', 'erf': 'f',
        'sigmoid': 'f', 'floor': 'f', 'ceil': 'f', 'round': 'f', 'trunc': 'f', 'sign': 'f',
        'sinh': 'f', 'cosh': 'f', 'tan': 'f', 'asin': 'unit', 'acos': 'unit', 'atan': 'f',
        'asinh': 'f', 'atanh': 'unit', 'expm1': 'f', 'exp2': 'f', 'log1p': 'pos', 'log2': 'pos',
        'log10': 'pos', 'erfc': 'f', 'frac': 'f', 'deg2rad': 'f', 'rad2deg': 'f', 'sinc': 'f',
        'nan_to_num': 'f'}
    for name, kind in kinds.items():
        for shape in SHAPES:
            row(name, getattr(torch, name), [(kind, 'f64', shape)])
            row(name, getattr(torch, name), [(kind, 'f32', shape)])
        row(name, getattr(torch, name), [(kind, 'bf16', [3, 4])])
        row(name, getattr(torch, name), [(kind, 'bf16', [7])])
    for name in ('neg', 'abs', 'exp', 'square', 'reciprocal'):
        row(name, getattr(torch, name), [('pos', 'c64', [5])])
    for name, attrs in (('relu', {}), ('silu', {}), ('gelu', {}), ('gelu', {'approximate': 'tanh'}),
                        ('softplus', {}), ('relu6', {}), ('hardtanh', {}),
                        ('hardtanh', {'min_val': -0.5, 'max_val': 2.0}), ('hardsigmoid', {}),
                        ('hardswish', {}), ('leaky_relu', {}), ('leaky_relu', {'negative_slope': 0.5}),
                        ('softshrink', {}), ('hardshrink', {}), ('elu', {}), ('elu', {'alpha': 0.5}),
                        ('celu', {'alpha': 2.0}), ('selu', {}), ('logsigmoid', {}), ('mish', {}),
                        ('softsign', {}), ('tanhshrink', {})):
        for shape in SHAPES[:4]:
            for kind in ('f', 'tie'):
                row(name, getattr(F, name), [(kind, 'f64', shape)], attrs)
            row(name, getattr(F, name), [('f', 'f32', shape)], attrs)
    row('threshold', F.threshold, [('f', 'f64', [5, 3])], {'threshold': 0.5, 'value': -1.0})
    row('glu', F.glu, [('f', 'f64', [3, 4])], {'dim': -1})


PAIRS = [([5, 3], [5, 3]), ([5, 3], [3]), ([4, 1], [1, 3]), ([3], []), ([], [2]), ([0, 3], [3])]


def binary():
    second = {'div': 'pos', 'remainder': 'pos', 'fmod': 'pos', 'atan2': 'pos', 'xlogy': 'pos'}
    for name in ('add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'fmax', 'fmin', 'remainder',
                 'fmod', 'atan2', 'hypot', 'logaddexp', 'logaddexp2', 'copysign', 'xlogy'):
        for a, b in PAIRS:
            for kind in ('f', 'tie'):
                first = 'pos' if name == 'hypot' else kind
                for dtype in ('f64', 'f32'):
                    row(name, getattr(torch, name),
                        [(first, dtype, a), (second.get(name, kind), dtype, b)])
        if name in ('fmod', 'remainder', 'atan2', 'hypot', 'logaddexp', 'logaddexp2', 'xlogy',
                    'copysign'):
            continue
        row(name, getattr(torch, name), [('f', 'f32', [4]), ('pos', 'f64', [3, 4])])
        row(name, getattr(torch, name), [('f', 'bf16', [4]), ('pos', 'f32', [3, 4])])
    for name in ('add', 'sub', 'mul', 'div'):
        row(name, getattr(torch, name), [('f', 'c64', [4]), ('pos', 'c64', [4])])
        row(name, getattr(torch, name), [('f', 'f32', [4]), ('pos', 'c64', [3, 4])])
    for a, b in PAIRS:
        row('pow', torch.pow, [('pos', 'f64', a), ('f', 'f64', b)])
        row('pow', torch.pow, [('tie', 'f64', a), ('i3', 'i64', b)])
        row('pow', torch.pow, [('zeros', 'f64', a), ('pos', 'f64', b)])
        row('clamp_min', lambda x, m: torch.clamp(x, min=m), [('tie', 'f64', a), ('tie', 'f64', b)])
        row('clamp_max', lambda x, m: torch.clamp(x, max=m), [('tie', 'f64', a), ('tie', 'f64', b)])
        row('clamp', lambda x, low, high: torch.clamp(x, low, high),
            [('tie', 'f64', a), ('tie', 'f64', b), ('f', 'f64', b)])
    for shape in SHAPES[:4]:
        row('where', torch.where, [('b', 'bool', shape), ('f', 'f64', shape), ('f', 'f64', [1])])
        row('addcmul', torch.addcmul, [('f', 'f64', shape)] * 3, {'value': -2.0})
        row('addcdiv', torch.addcdiv, [('f', 'f64', shape), ('f', 'f64', shape), ('pos', 'f64', shape)])
        row('lerp', torch.lerp, [('f', 'f64', shape)] * 3)


def reductions():
    for name in ('sum', 'mean', 'amax', 'amin', 'prod', 'logsumexp', 'nansum', 'nanmean'):
        for kind in ('f', 'tie', 'pos'):
            for shape, dims in (([5, 3], [0, 1]), ([2, 3, 4], [1, -1]), ([6], [0])):
                for dim in dims:
                    for keepdim in (False, True):
                        row(name, getattr(torch, name), [(kind, 'f64', shape)],
                            {'dim': dim, 'keepdim': keepdim})
        if name != 'logsumexp':
            for kind in ('f', 'tie', 'zeros'):
                for shape in ([4], [3, 2]):
                    row(name, getattr(torch, name), [(kind, 'f64', shape)])
    for name in ('max', 'min'):
        for kind in ('f', 'tie', 'zeros'):
            row(name, getattr(torch, name), [(kind, 'f64', [5, 3])])
            for dim in (0, 1, -1):
                for keepdim in (False, True):
                    row(name, getattr(torch, name), [(kind, 'f64', [5, 3])],
                        {'dim': dim, 'keepdim': keepdim})
    for name in ('var', 'std'):
        for kind in ('f', 'tie', 'zeros'):
            for attrs in ({'dim': 0}, {'dim': 1, 'keepdim': True}, {'dim': [0, 1], 'correction': 0},
                          {'dim': 0, 'correction': 2}):
                for dtype in ('f64', 'f32'):
                    row(name, getattr(torch, name), [(kind, dtype, [5, 3])], attrs)
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float('inf'), float('-inf')):
        for kind in ('f', 'tie', 'zeros'):
            for attrs in ({'dim': 0}, {'dim': 1, 'keepdim': True}):
                text = 'inf' if p == float('inf') else '-inf' if p == float('-inf') else p
                for dtype in ('f64', 'f32'):
                    row('norm', lambda x, p, dim, keepdim=False: torch.linalg.vector_norm(
                        x, float(p), dim, keepdim), [(kind, dtype, [4, 3])], {'p': text, **attrs})
    for kind in ('f', 'tie'):
        for attrs in ({'dim': 0}, {'dim': -1, 'keepdim': True}):
            row('median', torch.median, [(kind, 'f64', [5, 3])], attrs)
            row('kthvalue', torch.kthvalue, [(kind, 'f64', [5, 3])], {'k': 2, **attrs})
        row('median', torch.median, [(kind, 'f64', [5, 3])])
        row('aminmax', lambda x, dim: tuple(torch.aminmax(x, dim=dim)), [(kind, 'f64', [5, 3])], {'dim': 1})
        for name in ('cumsum', 'cumprod', 'cummax', 'cummin', 'logcumsumexp'):
            for shape, dim in (([5, 3], 0), ([2, 4], -1), ([6], 0), ([0], 0)):
                row(name, getattr(torch, name), [(kind, 'f64', shape)], {'dim': dim})
        for name in ('softmax', 'log_softmax'):
            for dim in (0, -1):
                for dtype in ('f64', 'f32', 'bf16'):
                    row(name, getattr(torch, name), [(kind, dtype, [5, 3])], {'dim': dim})
        for attrs in ({'dim': 0}, {'dim': -1, 'descending': True}):
            row('sort', lambda x, **a: tuple(torch.sort(x, stable=True, **a)), [(kind, 'f64', [5, 3])], attrs)
        row('topk', torch.topk, [('f', 'f64', [5, 3])], {'k': 2, 'dim': 0})
    for p in (1.0, 2.0, 3.0):
        for kind in ('f', 'zeros'):
            row('dist', torch.dist, [(kind, 'f64', [4, 3]), (kind, 'f64', [4, 3])], {'p': p})
            row('cdist', torch.cdist, [(kind, 'f64', [4, 3]), ('f', 'f64', [2, 3])], {'p': p})
            row('normalize', F.normalize, [(kind, 'f64', [4, 3])], {'p': p})
    row('cosine_similarity', F.cosine_similarity, [('f', 'f64', [4, 3]), ('f', 'f64', [4, 3])])


def views():
    x = [('f', 'f64', [4, 3])]
    for name, fn, attrs in (
            ('t', lambda x: x.T, {}), ('transpose', torch.transpose, {'dim0': 0, 'dim1': 1}),
            ('permute', torch.permute, {'dims': [1, 0]}),
            ('unsqueeze', torch.unsqueeze, {'dim': 1}),
            ('reshape', torch.reshape, {'shape': [2, 6]}),
            ('flatten', torch.flatten, {}),
            ('expand', lambda x, size: x.expand(size), {'size': [2, 4, 3]}),
            ('flip', torch.flip, {'dims': [0]}),
            ('roll', torch.roll, {'shifts': 1, 'dims': 0}), ('roll', torch.roll, {'shifts': 2}),
            ('repeat', lambda x, repeats: x.repeat(repeats), {'repeats': [2, 1, 3]}),
            ('pad', F.pad, {'pad': [1, 2]}), ('pad', F.pad, {'pad': [-1, 1, 0, 2]}),
            ('tril', torch.tril, {}), ('triu', torch.triu, {'diagonal': 1}),
            ('diagonal', torch.diagonal, {}), ('narrow', torch.narrow, {'dim': 0, 'start': 1, 'length': 2}),
            ('select', torch.select, {'dim': 1, 'index': -1}),
            ('split', lambda x, sizes, dim: torch.split(x, sizes, dim), {'sizes': [1, 3], 'dim': 0}),
            ('chunk', torch.chunk, {'chunks': 2, 'dim': 0}),
            ('unfold', lambda x, dim, size, step: x.unfold(dim, size, step), {'dim': 0, 'size': 2, 'step': 1}),
            ('repeat_interleave', torch.repeat_interleave, {'repeats': 2, 'dim': 0}),
            ('diff', torch.diff, {'dim': 0}), ('rot90', torch.rot90, {}),
            ('unbind', torch.unbind, {})):
        for dtype in ('f64', 'f32', 'c64'):
            row(name, fn, [('f', dtype, [4, 3])], attrs)
    for dim in (0, 1):
        row('cat', lambda a, b, dim: torch.cat([a, b], dim), [('f', 'f64', [4, 3])] * 2, {'dim': dim})
        row('stack', lambda a, b, dim: torch.stack([a, b], dim), [('f', 'f64', [4, 3])] * 2, {'dim': dim})
    row('embedding', F.embedding, [('i4', 'i64', [2, 3]), ('f', 'f64', [4, 3])])
    row('embedding', F.embedding, [('i4', 'i64', [5]), ('f', 'f64', [4, 3])], {'padding_idx': 1})
    for dim in (0, 1):
        row('take_along_dim', lambda x, i, dim: torch.gather(x, dim, i),
            [('f', 'f64', [4, 3]), ('i3', 'i64', [2, 3])], {'dim': dim})
        row('index_add', lambda x, i, s, dim: torch.index_add(x, dim, i, s),
            [('f', 'f64', [3, 3]), ('i3', 'i64', [3]), ('f', 'f64', [3, 3])], {'dim': dim})
        row('scatter_along_dim', lambda x, i, s, dim, reduce: torch.scatter_add(x, dim, i, s),
            [('f', 'f64', [4, 3]), ('i3', 'i64', [2, 3]), ('f', 'f64', [2, 3])],
            {'dim': dim, 'reduce': 'add'})
    row('take', torch.take, [('f', 'f64', [4, 3]), ('i12', 'i64', [5])])


def products():
    for a, b in (([4, 3], [3, 2]), ([3], [3]), ([3], [3, 2]), ([4, 3], [3]), ([2, 4, 3], [3, 5]),
                 ([2, 4, 3], [2, 3, 5]), ([2, 1, 4, 3], [5, 3, 2]), ([3], [2, 3, 5]),
                 ([2, 4, 3], [3]), ([4, 3], [2, 3, 5]), ([0, 3], [3, 2])):
        for dtype in ('f64', 'f32', 'c64'):
            row('matmul', torch.matmul, [('f', dtype, a), ('f', dtype, b)])
    for x, w, b in (([4, 3], [5, 3], [5]), ([2, 4, 3], [5, 3], [5]), ([3], [5, 3], [5])):
        row('linear', F.linear, [('f', 'f64', x), ('f', 'f64', w), ('f', 'f64', b)])
    row('addmm', torch.addmm, [('f', 'f64', [2]), ('f', 'f64', [4, 3]), ('f', 'f64', [3, 2])],
        {'beta': 0.5, 'alpha': 2.0})
    row('bmm', torch.bmm, [('f', 'f64', [2, 4, 3]), ('f', 'f64', [2, 3, 5])])
    row('outer', torch.outer, [('f', 'f64', [4]), ('f', 'f64', [3])])
    for equation, shapes in (('bsd,dhk->bhsk', ([2, 3, 4], [4, 2, 3])), ('ij,ij->', ([4, 3], [4, 3])),
                             ('ij->ji', ([4, 3],)), ('ijk->j', ([2, 3, 4],)), ('ii->i', ([3, 3],)),
                             ('i,j->ij', ([4], [3])), ('ab,bc,cd->ad', ([2, 3], [3, 4], [4, 2]))):
        row('einsum', lambda *x, equation: torch.einsum(equation, *x),
            [('f', 'f64', s) for s in shapes], {'equation': equation})
    for stride, padding, groups in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (2, 0, 2)):
        attrs = {'stride': stride, 'padding': padding, 'groups': groups}
        row('conv1d', F.conv1d, [('f', 'f64', [2, 4, 7]), ('f', 'f64', [4, 4 // groups, 3]), ('f', 'f64', [4])], attrs)
        row('conv2d', F.conv2d, [('f', 'f64', [2, 4, 5, 4]), ('f', 'f64', [2, 4 // groups, 3, 2])], attrs)
    row('conv_transpose1d', F.conv_transpose1d, [('f', 'f64', [2, 3, 4]), ('f', 'f64', [3, 2, 3])], {'stride': 2})
    for kernel in (2, 3):
        for kind in ('f', 'tie'):
            row('max_pool1d', F.max_pool1d, [(kind, 'f64', [2, 3, 7])], {'kernel_size': kernel})
            row('max_pool2d', F.max_pool2d, [(kind, 'f64', [1, 2, 6, 5])], {'kernel_size': kernel, 'stride': 1})
            row('avg_pool2d', F.avg_pool2d, [(kind, 'f64', [1, 2, 6, 5])], {'kernel_size': kernel})
            row('adaptive_avg_pool1d', F.adaptive_avg_pool1d, [(kind, 'f64', [2, 3, 7])], {'output_size': kernel})
            row('adaptive_max_pool1d', F.adaptive_max_pool1d, [(kind, 'f64', [2, 3, 7])], {'output_size': kernel})


def layers():
    for shape in ([4, 5], [2, 3, 5]):
        row('layer_norm', lambda x, w, b: F.layer_norm(x, [5], w, b),
            [('f', 'f64', shape), ('pos', 'f64', [5]), ('f', 'f64', [5])])
        row('rms_norm', lambda x, w, eps: F.rms_norm(x, [5], w, eps),
            [('f', 'f64', shape), ('pos', 'f64', [5])], {'eps': 1e-6})
    row('batch_norm', lambda x, training: F.batch_norm(x, None, None, training=training),
        [('f', 'f64', [4, 3, 2])], {'training': True})
    row('group_norm', lambda x, w, b, num_groups: F.group_norm(x, num_groups, w, b),
        [('f', 'f64', [2, 4, 3]), ('pos', 'f64', [4]), ('f', 'f64', [4])], {'num_groups': 2})
    for causal in (False, True):
        for q, k in (([2, 4, 5, 4], [2, 4, 5, 4]), ([1, 2, 3, 2], [1, 2, 6, 2]), ([2, 6, 3, 2], [2, 2, 3, 2])):
            row('sdpa', lambda q, k, v, causal: F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=True),
                [('f', 'f64', q), ('f', 'f64', k), ('f', 'f64', k)], {'causal': causal})
    for reduction in ('mean', 'sum', 'none'):
        for shape in ([4, 3], [2, 3, 2]):
            labels = [shape[0]] + shape[2:]
            for attrs in ({}, {'label_smoothing': 0.1}, {'ignore_index': 1}):
                row('cross_entropy', F.cross_entropy, [('f', 'f64', shape), ('i3', 'i64', labels)],
                    {'reduction': reduction, **attrs})
            row('nll_loss', F.nll_loss, [('f', 'f64', shape), ('i3', 'i64', labels)],
                {'reduction': reduction})
        for kind in ('f', 'tie'):
            for name in ('mse_loss', 'l1_loss', 'smooth_l1_loss', 'huber_loss', 'soft_margin_loss'):
                target = kind + ('~' if name == 'soft_margin_loss' else '')
                row(name, getattr(F, name), [(kind, 'f64', [4, 3]), (target, 'f64', [4, 3])],
                    {'reduction': reduction})
            row('hinge_embedding_loss', F.hinge_embedding_loss,
                [(kind, 'f64', [4, 3]), ('i1', 'i64', [4, 3])], {'reduction': reduction})
            row('margin_ranking_loss', F.margin_ranking_loss,
                [(kind, 'f64', [4]), (kind, 'f64', [4]), ('tie', 'f64', [4])], {'reduction': reduction})
            row('triplet_margin_loss', F.triplet_margin_loss, [(kind, 'f64', [4, 3])] * 3,
                {'reduction': reduction})
        row('binary_cross_entropy_with_logits', F.binary_cross_entropy_with_logits,
            [('f', 'f64', [4, 3]), ('unit', 'f64', [4, 3])], {'reduction': reduction})
        row('kl_div', F.kl_div, [('f', 'f64', [4, 3]), ('pos', 'f64', [4, 3])], {'reduction': reduction})
        row('poisson_nll_loss', F.poisson_nll_loss, [('f', 'f64', [4, 3]), ('pos', 'f64', [4, 3])],
            {'reduction': reduction})
        row('gaussian_nll_loss', F.gaussian_nll_loss,
            [('f', 'f64', [4, 3]), ('f', 'f64', [4, 3]), ('pos', 'f64', [4, 3])], {'reduction': reduction})
    for n in (1, 2, 3):
        row('inverse', torch.inverse, [('pos', 'f64', [n, n])])
        row('det', torch.det, [('pos', 'f64', [n, n])])
    row('solve', torch.linalg.solve, [('pos', 'f64', [3, 3]), ('f', 'f64', [3, 2])])


def edges():
    """Shapes and points at which an obvious formula gives another result."""
    for shapes, dim in ((([2, 1], [2, 2]), 1), (([2, 2], [1, 2, 2]), -2), (([], [4]), 0),
                        (([3, 1, 2], [4, 1]), 2)):
        row('cosine_similarity', F.cosine_similarity, [('f', 'f64', s) for s in shapes],
            {'dim': dim})
    for p in (-0.5, -1.0, -2.0):
        for kind in ('tie', 'zeros', 'pos'):
            row('norm', lambda x, p, dim: torch.linalg.vector_norm(x, p, dim),
                [(kind, 'f64', [4, 3])], {'p': p, 'dim': 0})
    for reduction in ('mean', 'sum', 'none'):
        for kind in ('b', 'share'):
            for target in ('b~', 'share~'):
                row('binary_cross_entropy', F.binary_cross_entropy,
                    [(kind, 'f64', [4, 3]), (target, 'f64', [4, 3])], {'reduction': reduction})
        row('binary_cross_entropy', F.binary_cross_entropy,
            [('inside', 'f64', [4, 3]), ('share', 'f64', [4, 3])], {'reduction': reduction})
        row('binary_cross_entropy_with_logits', F.binary_cross_entropy_with_logits,
            [('tie', 'f64', [4, 3]), ('share', 'f64', [4, 3])], {'reduction': reduction})
    for name in ('any', 'all'):
        for kind, dtype in (('tie', 'f64'), ('i3', 'i64'), ('b', 'bool')):
            for dim in ([], [0], [0, 1]):
                for keepdim in (False, True):
                    row(name, getattr(torch, name), [(kind, dtype, [4, 3])],
                        {'dim': dim, 'keepdim': keepdim})
    for pad in ([-1, 1], [1, -1], [-1, 2], [2, -1], [1, 2]):
        for mode in ('circular', 'replicate', 'reflect'):
            if mode == 'circular' or min(pad) > 0:
                row('pad', F.pad, [('f', 'f64', [2, 4])], {'pad': pad, 'mode': mode})
    for shape, where in (([2, 1, 3], {0: [], 2: [2]}), ([3, 2, 2, 4], {0: [2], 1: [], 3: [2]}),
                         ([2, 2, 3, 2], {1: [], 3: [2, 1]}), ([2, 3], {0: [], 1: []})):
        row('index_at', lambda x, *indices, dims: x[tuple(
            indices[dims.index(d)] if d in dims else slice(None) for d in range(x.dim()))],
            [('f', 'f64', shape)] + [('i2', 'i64', s) for s in where.values()],
            {'dims': list(where)})
    for kernel, stride in ((3, 2), (4, 3)):
        for shape in ([2, 2], [1, 2, 2]):
            row('max_pool1d', F.max_pool1d, [('f', 'f64', shape)],
                {'kernel_size': kernel, 'stride': stride, 'ceil_mode': True})
            row('avg_pool1d', F.avg_pool1d, [('f', 'f64', shape)],
                {'kernel_size': kernel, 'stride': stride, 'ceil_mode': True})
        row('max_pool2d', F.max_pool2d, [('f', 'f64', [2, 2, 3])],
            {'kernel_size': kernel, 'stride': stride, 'ceil_mode': True})
        row('avg_pool2d', F.avg_pool2d, [('f', 'f64', [2, 2, 3])],
            {'kernel_size': kernel, 'stride': stride, 'ceil_mode': True, 'padding': 1})
    row('conv_transpose1d', F.conv_transpose1d,
        [('f', 'f64', [3, 4]), ('f', 'f64', [3, 2, 3])], {'stride': 2})
    row('conv_transpose2d', F.conv_transpose2d,
        [('f', 'f64', [3, 2, 4]), ('f', 'f64', [3, 2, 3, 1]), ('f', 'f64', [2])])
    for a, b in (([2, 1, 1], [1, 3]), ([2, 2], [3, 2, 1]), ([3, 2, 2], [2]), ([3, 2, 2], [3, 2]),
                 ([1, 2, 2], [3, 2, 2])):
        row('solve', torch.linalg.solve, [('pos', 'f64', a), ('f', 'f64', b)])
    for a, b in (('f32', 'f64'), ('f64', 'f32'), ('bf16', 'f32')):
        row('mse_loss', F.mse_loss, [('f', a, [4, 3]), ('f', b, [4, 3])], {'reduction': 'none'})
        row('xlogy', torch.xlogy, [('tie', a, [4, 3]), ('pos', b, [3])])
        row('pow', torch.pow, [('pos', a, [4, 3]), ('unit', b, [3])])
    for name in ('xlogy', 'special.xlog1py'):
        for dtype in ('f64', 'f32', 'bf16'):
            for shape in ([3], []):
                row(name.split('.')[-1], getattr(torch.special, name.split('.')[-1]),
                    [('f', dtype, shape), 0.7])
    for dtype in ('f32', 'bf16'):
        row('ldexp', torch.ldexp, [('f', dtype, [4, 3]), ('i3~', 'i64', [3])])
    row('clamp', torch.clamp, [('tie', 'f64', [5]), -1.0, 1.0])
    row('clamp', torch.clamp, [('tie', 'f64', [5]), 0.0, 0.0])
    row('clamp_min', torch.clamp_min, [('tie', 'f64', [5]), 0.0])
    row('clamp_max', torch.clamp_max, [('tie', 'f64', [5]), 0.0])
    row('atan2', torch.atan2, [('pos', 'f64', [5]), ('b', 'bool', [5])])
    for shape in ([6], [2, 1], []):
        row('atan2', torch.atan2, [('tie', 'f64', shape), ('zeros', 'f64', [3, 2, 6])])
    row('atan2', torch.atan2, [('pos', 'f64', [5]), ('i3', 'i64', [5])])


def complex_numbers():
    for dtype, shape in (('c128', [5, 3]), ('c64', [4])):
        for name in ('log', 'log2', 'log10', 'log1p', 'expm1', 'exp2', 'sin', 'cos', 'tan', 'sinh',
                     'cosh', 'tanh', 'asin', 'acos', 'atan', 'asinh', 'acosh', 'atanh', 'sqrt',
                     'rsqrt', 'sigmoid', 'sinc', 'isinf', 'isnan', 'isfinite', 'sgn', 'angle'):
            row(name, getattr(torch, name), [('turn', dtype, shape)])
        for name in ('softsign', 'tanhshrink'):
            row(name, getattr(F, name), [('turn', dtype, shape)])
        row('log1p', torch.log1p, [('small', dtype, shape)])
        row('expm1', torch.expm1, [('small', dtype, shape)])
        for other in (dtype, 'f64' if dtype == 'c128' else 'f32'):
            row('pow', torch.pow, [('turn', dtype, shape), ('unit', other, shape)])
            row('pow', torch.pow, [('pos', other, shape), ('turn', dtype, shape)])
        for exponent in (2.0, 3.0, 0.0, -1.0, 0.5):
            row('pow', torch.pow, [('turn', dtype, shape), exponent])
        row('lerp', torch.lerp, [('turn', dtype, shape)] * 3)
        for attrs in ({'dim': 0}, {'dim': -1, 'keepdim': True}, {}):
            row('mean', torch.mean, [('f', dtype, shape)], attrs)
            for name in ('var', 'std'):
                row(name, getattr(torch, name), [('f', dtype, shape)],
                    {**attrs, 'correction': 0} if attrs else {})
            for p in (0.0, 1.0, 2.0, 3.0, float('inf'), float('-inf')):
                text = 'inf' if p == float('inf') else '-inf' if p == float('-inf') else p
                row('norm', lambda x, p, dim=None, keepdim=False: torch.linalg.vector_norm(
                    x, float(p), dim, keepdim), [('f', dtype, shape)], {'p': text, **attrs})
            row('prod', torch.prod, [('f', dtype, shape)], attrs)
            if attrs:
                row('logsumexp', torch.logsumexp, [('f', dtype, shape)], attrs)
        row('cumprod', torch.cumprod, [('f', dtype, shape)], {'dim': 0})
        row('cumprod', torch.cumprod, [('tie', dtype, shape)], {'dim': -1})


if __name__ == '__main__':
    for part in (unary, binary, reductions, views, products, layers, edges,
                 complex_numbers):
        part()
