# Meets another program like it on the GPU, and says whether it has no more than half of its processors.
#
# Arguments: a folder, the name of this one, and that of the other one.
import os
import sys
import time

import torch

folder, mine, other = sys.argv[1:]
torch.ones(1, device="cuda")
open(f"{folder}/{mine}", "w").close()
until = time.time() + 60
while not os.path.exists(f"{folder}/{other}"):
    if time.time() > until:
        raise SystemExit("the other program does not run at the same time")
    time.sleep(0.05)
a = torch.randn(4096, 4096, device="cuda")
for _ in range(200):
    b = a @ a
torch.cuda.synchronize()
seen = torch.cuda.get_device_properties(0).multi_processor_count
percent = int(os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
whole = {"H100": 132, "H200": 132}.get(torch.cuda.get_device_name(0).split()[1], 0)
print("processors", seen, "of", whole or "?", "percent", percent)
print("half", percent == 50 and (not whole or seen <= whole / 2 + 1))
