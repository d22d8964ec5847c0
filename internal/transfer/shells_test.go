package transfer

import (
	"context"
	"crypto/ed25519"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	xssh "golang.org/x/crypto/ssh"
)

// withShell returns a node whose "sh" is the given program. With busybox, all other programs are busybox's. The broken
// programs fail at once.
func withShell(t *testing.T, shell string, broken ...string) *Remote {
	t.Helper()
	program, err := exec.LookPath(shell)
	if err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
			t.Fatalf("no %s on this machine, and GPUTRAIN_REQUIRE_SSHD is set", shell)
		}
		t.Skipf("no %s on this machine", shell)
	}
	bin := t.TempDir()
	env := "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	if shell == "busybox" {
		if out, err := exec.Command(program, "--install", "-s", bin).CombinedOutput(); err != nil {
			t.Fatalf("busybox --install: %v: %s", err, out)
		}
		env = "PATH=" + bin
	} else {
		must(t, os.Symlink(program, filepath.Join(bin, "sh")))
	}
	for _, name := range broken {
		os.Remove(filepath.Join(bin, name))
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!"+program+"\nexit 1\n"), 0o755))
	}
	signer := func() xssh.Signer {
		_, key, err := ed25519.GenerateKey(nil)
		must(t, err)
		s, err := xssh.NewSignerFromKey(key)
		must(t, err)
		return s
	}
	host, user := signer(), signer()
	home := filepath.Join(t.TempDir(), "a home")
	must(t, os.Mkdir(home, 0o755))
	server, err := sshd.New(sshd.Config{HostKey: host, AuthorizedKeys: []xssh.PublicKey{user.PublicKey()}, Dir: home, Env: []string{env}})
	must(t, err)
	t.Cleanup(func() { server.Close() })
	c := ssh.New(ssh.Config{
		Dial: func(context.Context) (net.Conn, error) { return server.Dial() },
		User: "me", Auth: []xssh.AuthMethod{xssh.PublicKeys(user)}, HostKey: xssh.FixedHostKey(host.PublicKey()),
	})
	t.Cleanup(func() { c.Close() })
	must(t, c.Connect(t.Context()))
	return &Remote{Client: c, Tools: Tools{Tar: true, SHA256: "sha256sum"}, Dir: filepath.Join(home, "w")}
}

// TestShells runs each operation with each shell.
func TestShells(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			r := withShell(t, shell)
			local, back := t.TempDir(), t.TempDir()
			odd.make(t, local)
			for range 2 {
				must(t, r.Upload(t.Context(), local, "up", Options{}))
				odd.compare(t, filepath.Join(r.Dir, "up"))
			}
			must(t, os.RemoveAll(filepath.Join(r.Dir, "up", controlled)))
			must(t, r.Download(t.Context(), "up", back, DownloadOptions{}))
			plain.compare(t, filepath.Join(back, "up"))

			big := filepath.Join(t.TempDir(), "big")
			must(t, os.WriteFile(big, []byte("end"), 0o644))
			must(t, os.Truncate(big, bulkSize+3*block+5))
			for _, f := range []string{filepath.Join(local, "run.sh"), big} {
				must(t, r.Upload(t.Context(), f, "new line/"+filepath.Base(f), Options{}))
			}
			files, err := r.Fetch(t.Context(), []string{"**/*.sh", "new*/*", "up/b*/*"}, t.TempDir(), FetchOptions{})
			if err != nil || len(files) != 4 {
				t.Errorf("fetched %+v, %v", files, err)
			}
			entries := []Entry{{Local: local, Remote: "sy"}}
			for _, change := range []func(){func() {}, func() {}, func() { os.RemoveAll(filepath.Join(local, "-rf")) }} {
				change()
				if _, err := r.Sync(t.Context(), entries, nil); err != nil {
					t.Error(err)
				}
				contents(t, local).compare(t, filepath.Join(r.Dir, "sy"))
			}
			if stats, err := r.Sync(t.Context(), entries, nil); err != nil || stats.Sent != 0 {
				t.Errorf("nothing changed: %v, %v", stats, err)
			}
			noneStaged(t, r)
		})
	}
}
