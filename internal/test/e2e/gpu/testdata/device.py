# Says which GPU this program has.
import os

import torch

print("devices", torch.cuda.device_count(), torch.cuda.get_device_name(0))
print("visible", os.environ.get("CUDA_VISIBLE_DEVICES"))
print("sum", torch.ones(1000, device="cuda").sum().item())
