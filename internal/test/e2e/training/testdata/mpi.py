# A program for Open MPI without a compiler or a binding: it calls the library by ctypes. Each rank counts with an
# all-reduce, and reports a step when it begins with it. faults.py says what its environment can say.
import ctypes
import os

import faults
import state

lib = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_byte.in_dll(lib, "ompi_mpi_comm_world"))
double = ctypes.byref(ctypes.c_byte.in_dll(lib, "ompi_mpi_double"))
add = ctypes.byref(ctypes.c_byte.in_dll(lib, "ompi_mpi_op_sum"))

lib.MPI_Init(None, None)
number = ctypes.c_int()
lib.MPI_Comm_rank(world, ctypes.byref(number))
rank = number.value
lib.MPI_Comm_size(world, ctypes.byref(number))
size = number.value

names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]
print(f"rank {rank} of {size} has", " ".join(f"{n}={os.environ.get(n)}" for n in names), flush=True)
if (str(rank), str(size)) != (os.environ.get("RANK"), os.environ.get("WORLD_SIZE")):
    raise SystemExit("RANK or WORLD_SIZE is not what MPI says")


def all_reduce(x):
    here, out = ctypes.c_double(x), ctypes.c_double()
    lib.MPI_Allreduce(ctypes.byref(here), ctypes.byref(out), 1, double, add, world)
    return out.value


last, loss = state.resume()
for step in range(last + 1, faults.STEPS + 1):
    faults.before(step, rank)
    faults.report(step, rank, loss)
    loss = loss * 0.75 + all_reduce((rank + 1) * step) / 1024
    if rank == 0 and step % faults.SAVE_EVERY == 0:
        state.save(step, loss)

if rank == 0:
    print("final loss", repr(loss), flush=True)
lib.MPI_Finalize()
