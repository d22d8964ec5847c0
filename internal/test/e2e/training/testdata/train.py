# A real training with PyTorch: linear regression, whose gradients are averaged over all ranks. Its loss depends on the
# number of ranks and of steps alone, and not on the launcher, or on how often it was resumed. It runs under env://, torchrun
# and mpirun alike. faults.py says what its environment can say.
#
#   GROUP_SECONDS  the timeout of collectives; 60
#   SHARDED        each rank writes a part of its own to a checkpoint
import datetime
import os
import shutil

import torch
import torch.distributed as dist

import faults

cuda = torch.cuda.is_available()
if cuda:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
device = "cuda" if cuda else "cpu"
seconds = float(os.environ.get("GROUP_SECONDS", 60))
dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(seconds=seconds))
rank, world = dist.get_rank(), dist.get_world_size()
sharded = bool(os.environ.get("SHARDED"))

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1).double().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
truth = torch.arange(1, 9, dtype=torch.float64, device=device) / 8


def save(step):
    """Writes a checkpoint that appears by a rename, on the first rank's node last."""
    folder = os.environ.get("GPUTRAIN_CHECKPOINTS")
    if not folder or (rank > 0 and not sharded):
        dist.barrier()
        dist.barrier()
        return
    parts, whole = f"{folder}/.step-{step}", f"{folder}/step-{step}"
    os.makedirs(parts, exist_ok=True)
    if rank == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, f"{parts}/model.pt")
    if sharded:
        torch.save({"rank": rank, "step": step}, f"{parts}/rank-{rank}.pt")
    dist.barrier()  # all have written
    first = rank > 0 and int(os.environ["LOCAL_RANK"]) == 0
    if first:
        shutil.rmtree(whole, ignore_errors=True)
        os.rename(parts, whole)
    dist.barrier()  # all others have published
    if rank == 0:
        shutil.rmtree(whole, ignore_errors=True)
        os.rename(parts, whole)


def resume(path):
    """Takes up a checkpoint and returns its step."""
    state = torch.load(f"{path}/model.pt", map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if sharded:
        part = torch.load(f"{path}/rank-{rank}.pt")
        if part["step"] != state["step"]:
            raise SystemExit(f"rank {rank} has step {part['step']} of a checkpoint of step {state['step']}")
    return state["step"]


path = os.environ.get("GPUTRAIN_RESUME")
last = resume(path) if path else 0
print(f"rank {rank} of {world} goes on after step {last} of {path or 'nothing'} in attempt {faults.ATTEMPT}", flush=True)

for step in range(last + 1, faults.STEPS + 1):
    faults.before(step, rank)
    data = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(16, 8, generator=data, dtype=torch.float64).to(device)
    loss = ((model(inputs).squeeze(1) - inputs @ truth) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    # One collective for all: the gradients, the loss, and whether any node is about to be taken back.
    flag = torch.tensor([float(faults.noticed())], dtype=torch.float64, device=device)
    everything = torch.cat([p.grad.flatten() for p in model.parameters()] + [loss.detach().reshape(1), flag])
    dist.all_reduce(everything)
    everything[:-1] /= world
    at = 0
    for p in model.parameters():
        p.grad.copy_(everything[at : at + p.numel()].view_as(p))
        at += p.numel()
    optimizer.step()
    mean = everything[-2].item()
    faults.report(step, rank, mean)
    if step % faults.SAVE_EVERY == 0 or everything[-1].item() > 0:
        save(step)

dist.barrier()
if rank == 0:
    print("final loss", repr(mean) if last < faults.STEPS else "nothing to do", flush=True)
dist.destroy_process_group()
