"""The peers of executor_bench: the same MLP forward in PyTorch LocalTensor or JAX on forced host devices.

usage: peers_mlp.py jax|torch RANKS        prints the median of 11 runs in milliseconds, one core
"""
import os
import statistics
import sys
import time

BATCH, HIDDEN, FFN = 16, 256, 1024


def median_ms(run):
    run()
    times = []
    for _ in range(11):
        start = time.process_time()
        run()
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times)


def with_jax(ranks):
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={ranks}"
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((ranks,), ("tp",))

    def put(shape, *names):
        return jax.device_put(jnp.ones(shape), NamedSharding(mesh, PartitionSpec(*names)))

    x, w1, w2 = put((BATCH, HIDDEN)), put((HIDDEN, FFN), None, "tp"), put((FFN, HIDDEN), "tp")
    whole = NamedSharding(mesh, PartitionSpec())
    forward = jax.jit(lambda x, w1, w2: jax.nn.gelu(x @ w1, approximate=False) @ w2,
                      out_shardings=whole)
    return median_ms(lambda: forward(x, w1, w2).block_until_ready())


def with_torch(ranks):
    import torch
    import torch.distributed as dist
    from torch.distributed._local_tensor import LocalTensorMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    with LocalTensorMode(ranks) as mode:
        x = mode.rank_map(lambda rank: torch.ones(BATCH, HIDDEN))
        w1 = mode.rank_map(lambda rank: torch.ones(HIDDEN, FFN // ranks))
        w2 = mode.rank_map(lambda rank: torch.ones(FFN // ranks, HIDDEN))

        def forward():
            y = torch.nn.functional.gelu(x @ w1) @ w2
            dist.all_reduce(y)
            return y

        return median_ms(forward)


peer, ranks = sys.argv[1], int(sys.argv[2])
print(f"{peer}, {ranks} ranks: {({'jax': with_jax, 'torch': with_torch}[peer])(ranks):.2f} ms")
