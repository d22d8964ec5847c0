"""Calls a trivial function on a dask worker as internal/test/bench asks for it.

"latency N" is answered by the seconds that each of N calls took, one after
another, and "rate N LANES" by calls per second with LANES of them in flight.
The end of stdin is the end.
"""
import sys
import tempfile
import time

import dask
from distributed import Client, LocalCluster, as_completed


def increment(x):
    return x + 1


def latency(client, n):
    samples = []
    for x in range(n):
        start = time.perf_counter()
        assert client.submit(increment, x, pure=False).result() == x + 1
        samples.append(time.perf_counter() - start)
    return samples


def rate(client, n, lanes):
    start = time.perf_counter()
    calls = as_completed([client.submit(increment, x, pure=False) for x in range(min(n, lanes))])
    begun = min(n, lanes)
    for call in calls:
        call.result()
        if begun < n:
            calls.add(client.submit(increment, begun, pure=False))
            begun += 1
    return [n / (time.perf_counter() - start)]


def main():
    with tempfile.TemporaryDirectory() as scratch, dask.config.set(temporary_directory=scratch):
        with LocalCluster(n_workers=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
            print("ready", dask.__version__, flush=True)
            for line in sys.stdin:
                what, *numbers = line.split()
                answer = {"latency": latency, "rate": rate}[what](client, *map(int, numbers))
                print(*answer, flush=True)


if __name__ == "__main__":
    main()
