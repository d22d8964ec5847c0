# Has a part of the GPU's memory, and does nothing with it, while it reports one step after another.
import time

import torch

kept = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
for step in range(1, 10000):
    print(f"gputrain: step={step}", flush=True)
    time.sleep(1)
