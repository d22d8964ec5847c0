# gputrain: lets one SSH key into this Colab runtime, through an ngrok TCP tunnel.
#
# Colab's terms do not allow SSH, or use as a worker, on runtimes without a positive balance of
# compute units: such runtimes may be ended without warning. Set this to True if they allow it.
I_MAY_AUTOMATE_THIS_RUNTIME = False
PUBLIC_KEY = ""  # one line of a .pub file; if it is empty, the cell asks for it

import base64, getpass, hashlib, json, os, pathlib, pwd, re, shutil, signal, socket, struct, subprocess, sys, time, urllib.request

SSHD, SHADOW = "/usr/sbin/sshd", "/etc/shadow"
AGENT = "http://127.0.0.1:4040/api/tunnels"  # ngrok's own API in this runtime
PAUSE = 5  # seconds until the next tunnel
USER = pwd.getpwuid(os.getuid()).pw_name
STATE = pathlib.Path.home() / ".gputrain-colab"
CONFIG, SSHD_PID = STATE / "sshd_config", STATE / "sshd.pid"
LOG, NGROK_PID = STATE / "ngrok.log", STATE / "ngrok.pid"
HOST_KEY, AUTHORIZED = STATE / "host_ed25519", STATE / "authorized_keys"

# The variables of a notebook's processes that an SSH session gets, too. None may be secret.
KEPT = re.compile(r"(HOME|PATH|LD_LIBRARY_PATH|LIBRARY_PATH|PYTHONPATH|LANG|LC_ALL|(CUDA|NVIDIA|COLAB|TF|TPU|XRT|PJRT|NCCL)_.*)")
SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CRED|AUTH", re.I)

ADVICE = {
    "105": "The token is wrong.", "107": "The token was reset or revoked.", "302": "The token is missing or wrong.",
    "4018": "The token is missing or wrong.", "108": "Too many ngrok agents are online: stop another one.",
    "8013": "On ngrok's free plan TCP tunnels need a payment card on file. It is not charged.",
    "15002": "This ngrok plan needs a reserved TCP address.",
}


def run(*argv, **more):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def checked(line):
    """One public key in one line, whose type and body agree."""
    kind, _, rest = line.strip().partition(" ")
    if not re.fullmatch(r"(ssh|ecdsa|sk)-[a-z0-9@.-]+", kind) or not rest or "\n" in rest:
        raise SystemExit("PUBLIC_KEY is not one line of a .pub file. Never paste a private key here.")
    try:
        body = base64.b64decode(rest.split()[0], validate=True)
        named = body[4 : 4 + struct.unpack(">I", body[:4])[0]].decode()
    except (ValueError, struct.error):
        named = ""
    if named != kind:
        raise SystemExit("PUBLIC_KEY is damaged: its type and its body disagree.")
    return line.strip()


def token():
    try:
        from google.colab import userdata  # the key symbol in the left bar of the notebook

        found = userdata.get("NGROK_AUTHTOKEN")
        if found:
            return found.strip()
    except Exception:  # there is no such secret, the notebook may not read it, or this is not Colab
        pass
    return getpass.getpass("ngrok authtoken (not shown): ").strip()


def stop(pid_file, name):
    """Stops the process that an earlier run of this cell has left."""
    try:
        pid = int(pid_file.read_text())
        process = pathlib.Path(f"/proc/{pid}")
        if name not in (process / "cmdline").read_bytes():
            return  # another process has this ID by now
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            if not (process / "cmdline").read_bytes():  # a zombie, which may never be reaped
                return
            time.sleep(0.05)
    except (OSError, ValueError):
        pass  # it does not run


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def session_environment():
    env = {k: v for k, v in os.environ.items() if KEPT.fullmatch(k) and not SECRET.search(k) and not re.search(r'["\'\\\n\r]', v)}
    libraries = env.get("LD_LIBRARY_PATH", "")
    if os.path.isdir("/usr/lib64-nvidia") and "/usr/lib64-nvidia" not in libraries:
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, ("/usr/lib64-nvidia", libraries)))
    return " ".join(f'"{k}={v}"' for k, v in sorted(env.items()))


def install_sshd():
    if os.path.exists(SSHD):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", "update", env=quiet)
    run("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", "openssh-server", env=quiet)
    subprocess.run(["service", "ssh", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_sshd(key):
    """Runs a server of its own on the loopback. Returns its port and its public key."""
    STATE.mkdir(mode=0o700, exist_ok=True)
    install_sshd()
    stop(NGROK_PID, b"ngrok")
    stop(SSHD_PID, b"sshd")
    if not HOST_KEY.exists():  # a key from an image that many runtimes share proves nothing
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gputrain-colab", "-f", str(HOST_KEY))
    AUTHORIZED.write_text(f"restrict,port-forwarding,pty {key}\n")
    AUTHORIZED.chmod(0o600)
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        if re.search(r"^root:!", pathlib.Path(SHADOW).read_text(), re.M):
            run("usermod", "-p", "*", "root")  # "!" refuses keys as well; "*" refuses only passwords
    port = free_port()
    lines = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {HOST_KEY}", f"PidFile {SSHD_PID}",
        f"AllowUsers {USER}", f"AuthorizedKeysFile {AUTHORIZED}", "AuthenticationMethods publickey",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "UsePAM no",
        "StrictModes no",  # the folder is this user's alone, whatever the home is
        "AllowTcpForwarding yes", "AllowAgentForwarding no", "X11Forwarding no", "PrintMotd no", "UseDNS no",
        "ClientAliveInterval 30", "ClientAliveCountMax 6", "LoginGraceTime 30", "MaxSessions 64", "MaxStartups 32:30:128",
        "Subsystem sftp internal-sftp", f"SetEnv {session_environment()}",
    ]
    # All connections come from 127.0.0.1: a stranger's attempts must not shut the user out. OpenSSH before 9.8 lacks this option.
    CONFIG.write_text("\n".join(lines + ["PerSourcePenalties no", ""]))
    if subprocess.run([SSHD, "-t", "-f", str(CONFIG)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        CONFIG.write_text("\n".join(lines + [""]))
    run(SSHD, "-t", "-f", str(CONFIG))
    SSHD_PID.unlink(missing_ok=True)
    run(SSHD, "-f", str(CONFIG))
    for _ in range(100):  # it goes to the background before it writes its ID, which stop needs
        if SSHD_PID.exists() and SSHD_PID.read_text().strip():
            break
        time.sleep(0.05)
    return port, " ".join(HOST_KEY.with_suffix(".pub").read_text().split()[:2])


def ngrok():
    found = shutil.which("ngrok")
    if found:
        return found
    run(sys.executable, "-m", "pip", "install", "-q", "pyngrok")
    from pyngrok import conf, ngrok

    ngrok.install_ngrok()
    return conf.get_default().ngrok_path


def public_address(port):
    """Returns the host and port of the tunnel to a local port, or None. The agent may be the notebook's own, with other tunnels."""
    try:
        with urllib.request.urlopen(AGENT, timeout=3) as answer:
            for tunnel in json.load(answer).get("tunnels", []):
                m = re.fullmatch(r"tcp://([^:/]+):(\d+)", tunnel.get("public_url", ""))
                end = str((tunnel.get("config") or {}).get("addr") or "")
                if m and (not end or end.endswith(f":{port}")):
                    return m[1], int(m[2])
    except (OSError, ValueError):
        pass
    return None


def open_tunnel(binary, secret, port):
    """Starts ngrok, with its token in the environment. Returns its process and the tunnel's address."""
    with open(LOG, "wb") as log:
        process = subprocess.Popen(
            [binary, "tcp", "--log=stdout", "--log-format=json", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "NGROK_AUTHTOKEN": secret},
        )
    NGROK_PID.write_text(str(process.pid))
    try:
        deadline = time.monotonic() + 45
        while time.monotonic() < deadline and process.poll() is None:
            address = public_address(port)
            if address:
                return process, address
            time.sleep(0.5)
    except BaseException:
        close_tunnel(process)
        raise
    close_tunnel(process)
    said = LOG.read_text(errors="replace").replace(secret, "***")
    codes = re.findall(r"ERR_NGROK_(\d+)", said)
    if codes:
        raise SystemExit(f"The tunnel did not open: ERR_NGROK_{codes[-1]}. {ADVICE.get(codes[-1], 'See https://ngrok.com/docs/errors/')}")
    raise RuntimeError(f"The tunnel did not open. ngrok says: {said[-600:] or 'nothing'}")


def close_tunnel(process):
    if process and process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(host, port):
    for _ in range(10):
        try:
            with socket.create_connection((host, port), timeout=8) as s:
                if s.recv(64).startswith(b"SSH-2.0-"):
                    return True
        except OSError:
            pass
        time.sleep(1)
    return False


def gpus():
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        rows = subprocess.run(query, check=True, text=True, stdout=subprocess.PIPE).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [dict(zip(("name", "memory_mib", "driver"), map(str.strip, row.split(",")))) for row in rows]


def announce(host, port, host_key):
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    fingerprint = "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
    found = gpus()
    document = {
        "version": 1, "provider": "colab", "host": host, "port": port, "user": USER, "host_key": host_key, "host_key_sha256": fingerprint,
        "workdir": "/content", "gpus": found, "opened_at": int(time.time()),
    }
    print("\n--- JSON, for colab.ParseEndpoint ---", json.dumps(document, separators=(",", ":")), sep="\n")
    print("\n--- Go ---\nendpoint := colab.Endpoint{")
    for field, value in (("Host", host), ("Port", port), ("User", USER), ("HostKey", host_key)):
        print(f"\t{field + ':':<8} {json.dumps(value)},")
    print("}")
    print(f"\n--- known_hosts ---\n[{host}]:{port} {host_key}")
    print("\nHost key:", fingerprint, "\nGPUs:", ", ".join(g["name"] for g in found) or "none")
    print("Leave this cell running. Stopping it closes the tunnel.", flush=True)


def main():
    if not I_MAY_AUTOMATE_THIS_RUNTIME:
        raise SystemExit("Read the note at the top of this cell, then set I_MAY_AUTOMATE_THIS_RUNTIME = True.")
    key = checked(PUBLIC_KEY or input("SSH public key, one line: "))
    process, failures = None, 0
    try:
        port, host_key = start_sshd(key)
        binary, secret = ngrok(), token()
        while True:
            try:
                process, address = open_tunnel(binary, secret, port)
                failures = 0
                if not answers(*address):
                    print("The tunnel is open, but the SSH server does not answer through it yet.", flush=True)
                announce(*address, host_key)
                while process.poll() is None:  # a running cell keeps the runtime busy; it pretends no other activity
                    time.sleep(1)  # and not wait(), which does not see an interrupt that comes just before it
                print("\nThe tunnel has ended. The next one has another address.", flush=True)
            except RuntimeError as failure:
                failures += 1
                print(failure, flush=True)
                if failures == 3:
                    raise SystemExit("Three attempts were in vain. Run the cell again.")
            time.sleep(PAUSE * 2**failures)
    except KeyboardInterrupt:
        pass
    finally:
        close_tunnel(process)
        LOG.unlink(missing_ok=True)  # it may have ngrok's token
        stop(SSHD_PID, b"sshd")
        print("The tunnel and the SSH server are closed. The runtime goes on, and uses compute units, until you disconnect it.", flush=True)


main()
