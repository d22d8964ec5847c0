# Multiplies matrices on the GPU for some seconds, with 4 GiB besides.
import sys
import time

import torch

kept = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda")
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
until = time.time() + float(sys.argv[1])
step = 0
while time.time() < until:
    for _ in range(100):
        b = a @ a
    torch.cuda.synchronize()
    step += 1
    print(f"gputrain: step={step}", flush=True)
