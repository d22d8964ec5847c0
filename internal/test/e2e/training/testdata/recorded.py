# Runs train.py, and has torchrun record the exception that ends it.
import runpy

from torch.distributed.elastic.multiprocessing.errors import record

record(lambda: runpy.run_path("testdata/train.py"))()
