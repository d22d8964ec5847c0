// Package opensshtest runs real OpenSSH servers on the loopback for tests.
package opensshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// A Server is an OpenSSH server with default limits.
type Server struct {
	Addr    string         // 127.0.0.1:port
	User    string         // whom to log in as
	Signer  xssh.Signer    // a key that is let in
	KeyFile string         // the same key in a file
	HostKey xssh.PublicKey // the server's own key
	Dir     string
	t       testing.TB
	cmd     *exec.Cmd
}

// Start runs a server until the test ends. Without an installed sshd the test
// skips, or fails where GPUTRAIN_REQUIRE_SSHD is set.
func Start(t testing.TB) *Server {
	t.Helper()
	path, err := exec.LookPath("sshd")
	if err != nil {
		path = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
			t.Fatal("no sshd on this machine, and GPUTRAIN_REQUIRE_SSHD is set: install openssh-server")
		}
		t.Skip("no sshd on this machine: install openssh-server")
	}
	dir := t.TempDir()
	s := &Server{Dir: dir, User: currentUser(), t: t}
	s.Signer, s.KeyFile = writeKey(t, filepath.Join(dir, "client"))
	host, hostFile := writeKey(t, filepath.Join(dir, "host"))
	s.HostKey = host.PublicKey()
	must(t, os.WriteFile(filepath.Join(dir, "authorized_keys"), xssh.MarshalAuthorizedKey(s.Signer.PublicKey()), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.Addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(s.Addr)
	conf := fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n",
		port, hostFile, filepath.Join(dir, "authorized_keys"))
	must(t, os.WriteFile(filepath.Join(dir, "sshd_config"), []byte(conf), 0o600))
	os.MkdirAll("/run/sshd", 0o755)
	s.cmd = exec.Command(path, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	must(t, s.cmd.Start())
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	for range 500 {
		if c, err := net.Dial("tcp", s.Addr); err == nil {
			c.Close()
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("sshd did not start")
	return nil
}

func currentUser() string {
	if u := os.Getenv("USER"); u != "" {
		return u
	}
	return "root"
}

func writeKey(t testing.TB, path string) (xssh.Signer, string) {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	block, err := xssh.MarshalPrivateKey(priv, "test")
	must(t, err)
	must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	signer, err := xssh.NewSignerFromKey(priv)
	must(t, err)
	return signer, path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
