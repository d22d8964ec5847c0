# Takes more of the GPU's memory than there is.
import torch

free, total = torch.cuda.mem_get_info()
print("taking", total, "bytes, of which", free, "are free", flush=True)
kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(total // (1 << 30) + 1)]
