# A gang that starts in a tenth of a second: its ranks add numbers over TCP, on the first one. Each reports a step when it
# begins with it, so that one that hangs is behind the others. faults.py says what its environment can say.
import os
import socket
import struct
import time

import faults
import state

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
addr = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def meet():
    """Returns the connections to all others or, on those, to the first rank."""
    if rank == 0:
        server = socket.create_server(addr)
        return [server.accept()[0] for _ in range(1, world)]
    while True:
        try:
            return [socket.create_connection(addr)]
        except ConnectionRefusedError:
            time.sleep(0.05)


def receive(peer):
    data = peer.recv(8, socket.MSG_WAITALL)
    if len(data) < 8:
        raise ConnectionResetError("Connection closed by peer")
    return struct.unpack("d", data)[0]


def all_reduce(x):
    if rank == 0:
        x += sum(map(receive, peers))
    for peer in peers:
        peer.sendall(struct.pack("d", x))
    return x if rank == 0 else receive(peers[0])


last, loss = state.resume()
print(f"rank {rank} of {world} meets the others at port {addr[1]} in attempt {faults.ATTEMPT}", flush=True)
peers = meet()
for step in range(last + 1, faults.STEPS + 1):
    faults.before(step, rank)
    faults.report(step, rank, loss)
    loss = loss * 0.75 + all_reduce((rank + 1) * step) / 1024
    if rank == 0 and step % faults.SAVE_EVERY == 0:
        state.save(step, loss)

if rank == 0:
    print("final loss", repr(loss), flush=True)
