# What the programs beside this one share: how they are told what to do, and to fail.
#
#   STEPS         how many steps; 20
#   STEP_SECONDS  how long each step takes besides; 0
#   SAVE_EVERY    how many steps between checkpoints; 5
#   FAULT         KIND:RANK:STEP:ATTEMPT, or several with commas between: what a rank does before a step of an attempt.
#                 KIND is kill, segv, raise, exit<code>, hang (asleep), spin (busy), or stop (frozen).
#                 ATTEMPT * is each.
#   SILENT        it reports no steps
#
# SIGUSR1 makes a process hang, asleep.
import os
import signal
import sys
import time

STEPS = int(os.environ.get("STEPS", 20))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", 0))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", 5))
ATTEMPT = os.environ.get("GPUTRAIN_ATTEMPT", "1")
signal.signal(signal.SIGUSR1, lambda *_: fail("hang"))


def before(step, rank):
    """Fails, if this rank is to fail now, and waits for as long as a step takes."""
    for fault in filter(None, os.environ.get("FAULT", "").split(",")):
        kind, at_rank, at_step, attempt = fault.split(":")
        if (int(at_rank), int(at_step)) == (rank, step) and attempt in ("*", ATTEMPT):
            fail(kind)
    time.sleep(STEP_SECONDS)


def fail(kind):
    sys.stdout.flush()
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "raise":
        raise ValueError("the loss is not a number")
    elif kind == "hang":
        while True:
            time.sleep(3600)
    elif kind == "spin":
        while True:
            pass
    elif kind.startswith("exit"):
        sys.stdout.flush()
        os._exit(int(kind[4:]))
    else:
        raise SystemExit(f"FAULT: {kind} is not known")


def report(step, rank, loss):
    if not os.environ.get("SILENT"):
        print(f"gputrain: step={step}/{STEPS} loss={loss:.6f} rank={rank}", flush=True)


def noticed():
    """Reports whether the node is about to be taken back. Ranks must agree on what follows from it."""
    path = os.environ.get("GPUTRAIN_NOTICE")
    return bool(path) and os.path.exists(path)
