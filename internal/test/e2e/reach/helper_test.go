//go:build unix

package reach

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/ports"
	"github.com/gputrain/gputrain/providers/container"
)

// onEach runs a test on nodes in memory, on own hosts over OpenSSH, and in containers.
func onEach(t *testing.T, spec gputrain.Spec, test func(t *testing.T, pool *gputrain.Compute)) {
	t.Run("local", func(t *testing.T) { test(t, e2etest.Open(t, spec)) })
	t.Run("own host", func(t *testing.T) { test(t, e2etest.OpenHosts(t, spec, nil, e2etest.NewHost(t))) })
	t.Run("container", func(t *testing.T) {
		e2etest.NeedDocker(t)
		if testing.Short() {
			t.Skip("scripts/test -deep runs it: containers take seconds")
		}
		test(t, e2etest.OpenContainers(t, container.Config{}, spec))
	})
}

// echoScript serves connections on the node: it answers each with what came, once that has ended.
const echoScript = `exec python3 -c '
import socket, threading
l = socket.create_server(("127.0.0.1", 0))
open("port.new", "w").write(str(l.getsockname()[1]))
import os; os.rename("port.new", "port")
def serve(c):
    got = b""
    while True:
        b = c.recv(65536)
        if not b: break
        got += b
    c.sendall(got)
    c.close()
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
'`

// echo starts a server on node 0, and returns its address there.
func echo(t *testing.T, pool *gputrain.Compute) string {
	t.Helper()
	job := pool.Start(gputrain.Script(echoScript))
	t.Cleanup(job.Cancel)
	r, err := pool.Run(gputrain.Script("until [ -e port ]; do sleep 0.02; done; cat port"))
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + string(r.Stdout)
}

// repeater starts a server on this computer, which is an own host too, and returns its address. It sends back at once what
// comes.
func repeater(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// exchange sends text over a connection, ends its half, and returns the answer.
func exchange(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// program runs a program of this computer, and returns its output.
func program(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK=", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// deadPort returns a port of this computer at which nothing listens.
func deadPort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(ports.Dead(t).Port)
}

// newKey makes a key pair of the user's, and returns the private half's file and the public one.
func newKey(t *testing.T) (file, public string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "id")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me@laptop", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, strings.TrimSpace(string(text))
}
