# Adds the numbers of all processes with JAX.
import os

import jax

jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"]))

import jax.numpy as jnp  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402

all = multihost_utils.process_allgather(jnp.float32(jax.process_index()))
print(f"process {jax.process_index()} of {jax.process_count()} on {jax.default_backend()}: sum {float(all.sum())}", flush=True)
