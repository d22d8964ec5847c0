//go:build unix

package sshd

import (
	"bytes"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// An openSSH runs the real clients against a server on the loopback interface.
type openSSH struct {
	*testServer
	options []string // for both ssh and sftp
	host    string
	port    string
}

func newOpenSSH(t *testing.T) *openSSH {
	t.Helper()
	for _, program := range []string{"ssh", "sftp"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
				t.Fatalf("no %s on this machine, and GPUTRAIN_REQUIRE_SSHD is set: install openssh-client", program)
			}
			t.Skipf("no %s on this machine: install openssh-client", program)
		}
	}
	s := newServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)

	dir := t.TempDir()
	block, err := xssh.MarshalPrivateKey(s.key, "")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	line := knownhosts.Line([]string{addr}, s.cfg.HostKey.PublicKey()) + "\n"
	for name, data := range map[string][]byte{"key": pem.EncodeToMemory(block), "known_hosts": []byte(line)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := &openSSH{testServer: s}
	o.host, o.port, _ = net.SplitHostPort(addr)
	o.options = []string{"-F", "none", "-i", filepath.Join(dir, "key")}
	for _, option := range []string{
		"IdentitiesOnly=yes", "IdentityAgent=none", "BatchMode=yes", "LogLevel=ERROR", "User=anyone",
		"StrictHostKeyChecking=yes", "UserKnownHostsFile=" + filepath.Join(dir, "known_hosts"), "GlobalKnownHostsFile=none",
	} {
		o.options = append(o.options, "-o", option)
	}
	return o
}

func (o *openSSH) ssh(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ssh", append(append(o.options, "-p", o.port), args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestOpenSSHClient(t *testing.T) {
	o := newOpenSSH(t)
	big := strings.Repeat("0123456789abcde\n", 4<<20/16)
	tests := []struct {
		name           string
		stdin          string
		args           []string
		stdout, stderr string
		code           int
	}{
		{name: "exec", args: []string{o.host, "echo out; echo err >&2; exit 7"}, stdout: "out\n", stderr: "err\n", code: 7},
		{name: "shell", stdin: "echo $((6*7))\nexit 3\n", args: []string{"-T", o.host}, stdout: "42\n", code: 3},
		{name: "bulk both ways", stdin: big, args: []string{o.host, "cat"}, stdout: big},
		{name: "stdin closed early", stdin: big, args: []string{o.host, "exec <&-; sleep 0.1; echo ok"}, stdout: "ok\n"},
		{name: "environment", args: []string{"-o", "SetEnv=GREETING=hi", o.host, `echo "$GREETING"`}, stdout: "hi\n"},
		{name: "signal", args: []string{o.host, "kill -KILL $$"}, code: 255},
		{name: "grandchild", args: []string{o.host, "sleep 2 & exit 5"}, code: 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := o.ssh(t, tt.stdin, tt.args...)
			if stdout != tt.stdout || stderr != tt.stderr || code != tt.code {
				t.Errorf("stdout %d bytes %.60q, stderr %q, code %d", len(stdout), stdout, stderr, code)
			}
		})
	}
}

func TestOpenSSHSFTPClient(t *testing.T) {
	o := newOpenSSH(t)
	local := t.TempDir()
	data := bytes.Repeat([]byte{0, 1, 2, 0xff}, 1<<18)
	if err := os.WriteFile(filepath.Join(local, "up"), data, 0o640); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sftp", append(append([]string{"-q", "-b", "-"}, o.options...), "-P", o.port, o.host)...)
	cmd.Stdin = strings.NewReader("mkdir folder\nput -p " + filepath.Join(local, "up") + " folder/there\n" +
		"rename folder/there folder/moved\nget folder/moved " + filepath.Join(local, "down") + "\npwd\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "Remote working directory: " + o.dir; !strings.Contains(string(out), want) {
		t.Errorf("no %q in %s", want, out)
	}
	for _, path := range []string{filepath.Join(o.dir, "folder", "moved"), filepath.Join(local, "down")} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
}
