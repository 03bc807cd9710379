"""The peers of executor_bench: the same tensor-parallel MLP forward, y = all_reduce(gelu(x w1) w2), under
JAX on forced host devices or PyTorch's LocalTensor.

usage: peers_mlp.py jax|torch RANKS
prints the peer's version, then median processor and wall milliseconds of 11 runs
"""
import os
import statistics
import sys
import time

BATCH, HIDDEN, FFN = 16, 256, 1024


def values(rows, columns):
    """Small whole numbers, as executor_bench draws them."""
    import numpy

    return (numpy.arange(rows * columns) * 7 % 9 - 4).astype("float32").reshape(rows, columns) / 64


def medians(run):
    run()
    cpu, wall = [], []
    for _ in range(11):
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        run()
        cpu.append((time.process_time() - cpu_start) * 1e3)
        wall.append((time.perf_counter() - wall_start) * 1e3)
    return statistics.median(cpu), statistics.median(wall)


def check(found, x, w1, w2):
    """A peer that computes something else is no peer."""
    import math

    import numpy

    h = x.astype("float64") @ w1
    h = h * 0.5 * (1 + numpy.vectorize(math.erf)(h / math.sqrt(2)))
    numpy.testing.assert_allclose(numpy.asarray(found), h @ w2, rtol=1e-3, atol=1e-3)


def with_jax(ranks, x, w1, w2):
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={ranks}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.sharding.Mesh(jax.devices(), ("tp",))
    specs = (P(), P(None, "tp"), P("tp"))

    def rank_program(x, w1, w2):
        return jax.lax.psum(jax.nn.gelu(x @ w1, approximate=False) @ w2, "tp")

    forward = jax.jit(jax.shard_map(rank_program, mesh=mesh, in_specs=specs, out_specs=P()))
    inputs = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip((x, w1, w2), specs)]
    check(forward(*inputs), x, w1, w2)
    return jax.__version__, medians(lambda: forward(*inputs).block_until_ready())


def with_torch(ranks, x, w1, w2):
    import torch
    import torch.distributed as dist

    try:
        from torch.distributed._local_tensor import LocalTensorMode
    except ImportError:
        sys.exit(f"PyTorch {torch.__version__} has no LocalTensor")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    x, w1, w2 = (torch.from_numpy(a) for a in (x, w1, w2))
    part = FFN // ranks
    with LocalTensorMode(ranks) as mode:
        xs = mode.rank_map(lambda rank: x.clone())
        w1s = mode.rank_map(lambda rank: w1[:, rank * part : (rank + 1) * part].contiguous())
        w2s = mode.rank_map(lambda rank: w2[rank * part : (rank + 1) * part].contiguous())

        def forward():
            y = torch.nn.functional.gelu(xs @ w1s) @ w2s
            dist.all_reduce(y)
            return y

        found = forward()
        measured = medians(forward)
    check(found._local_tensors[ranks - 1], x.numpy(), w1.numpy(), w2.numpy())
    return torch.__version__, measured


if __name__ == "__main__":
    peer = {"jax": with_jax, "torch": with_torch}[sys.argv[1]]
    version, (cpu, wall) = peer(
        int(sys.argv[2]), values(BATCH, HIDDEN), values(HIDDEN, FFN), values(FFN, HIDDEN))
    print(version, f"{cpu:.3f} {wall:.3f}")
