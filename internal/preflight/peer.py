import os, select, socket, sys, threading, time
mode, family, limit, token = sys.argv[1:5]
rest = sys.argv[5:]
kill = threading.Timer(float(limit), lambda: os._exit(0))
kill.daemon = True
kill.start()
def say(*words):
    os.write(1, (" ".join(str(w) for w in words) + "\n").encode())
def text(e):
    return str(e).replace("\n", " ")
def listen():
    six = family == "6"
    open_ = []
    for port in rest:
        try:
            s = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("::" if six else "0.0.0.0", int(port)))
            s.listen(64)
            open_.append(s)
            say("port", port, s.getsockname()[1])
        except Exception as e:
            say("busy", port, text(e))
    say("ready")
    while True:
        for s in select.select(open_ + [0], [], [])[0]:
            if s == 0:
                if not os.read(0, 4096):
                    os._exit(0)
                continue
            c = s.accept()[0]
            try:
                c.sendall((token + "\n").encode())
            except Exception:
                pass
            c.close()
def dial(n, host, port, want):
    end = time.time() + 4
    while True: # a peer with nc does not listen for a moment after each connection
        try:
            c = socket.create_connection((host, int(port)), 5)
            c.settimeout(5)
            got = c.makefile().readline().strip()
            c.close()
            answer = ("ok" if got == want else "wrong", n, got[:80]) if got else ("fail", n)
        except Exception as e:
            answer = ("fail", n, text(e))
        if answer[0] != "fail" or time.time() > end:
            return say(*answer)
        time.sleep(0.2)
if mode == "listen":
    listen()
all_ = [threading.Thread(target=dial, args=rest[i:i + 4]) for i in range(0, len(rest), 4)]
for t in all_:
    t.start()
for t in all_:
    t.join()
say("end")
