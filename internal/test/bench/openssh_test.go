package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"
)

// An openssh is OpenSSH's client with its own configuration: no agent, and no file of the user.
type openssh struct {
	ctx  context.Context
	warm string // ssh_config with a connected master for every machine
	cold string // the same without masters
}

// openssh connects a ControlMaster to every machine. They end with the test.
func (l *lab) openssh(t *testing.T, machines ...*machine) *openssh {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := &openssh{l.ctx, filepath.Join(dir, "warm"), filepath.Join(dir, "cold")}
	var known, warm, cold strings.Builder
	for _, m := range machines {
		host, port, _ := strings.Cut(m.addr, ":")
		// A machine has many names, as pdsh visits each name once.
		stanza := fmt.Sprintf("Host %s %[1]s-*\n\tHostName %s\n\tPort %s\n\tUser %s\n\tIdentityFile %s\n", m.name, host, port, m.user, m.keyFile)
		cold.WriteString(stanza)
		fmt.Fprintf(&warm, "%s\tControlPath %s\n", stanza, filepath.Join(dir, m.name))
		known.WriteString(knownhosts.Line([]string{knownhosts.Normalize(m.addr)}, m.hostKey) + "\n")
	}
	knownFile := filepath.Join(dir, "known_hosts")
	common := "Host *\n\tBatchMode yes\n\tIdentitiesOnly yes\n\tIdentityAgent none\n\tForwardAgent no\n\tForwardX11 no\n" +
		"\tStrictHostKeyChecking yes\n\tUserKnownHostsFile " + knownFile + "\n\tGlobalKnownHostsFile none\n\tUpdateHostKeys no\n\tLogLevel ERROR\n"
	for file, text := range map[string]string{o.warm: warm.String() + common, o.cold: cold.String() + common, knownFile: known.String()} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for _, m := range machines {
		wg.Go(func() { o.master(t, m.name) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return o
}

// master runs a master until the test ends. It returns when the master is connected.
func (o *openssh) master(t *testing.T, name string) {
	var said bytes.Buffer
	cmd := exec.Command("ssh", "-F", o.warm, "-M", "-N", name)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		cmd.Wait()
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-over })
	for {
		if exec.Command("ssh", "-F", o.warm, "-O", "check", name).Run() == nil {
			return
		}
		select {
		case <-over:
			t.Errorf("ssh -M %s: %s", name, &said)
			return
		case <-o.ctx.Done():
			t.Error(o.ctx.Err())
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// run runs a program to its end.
func run(ctx context.Context, env []string, in string, name string, arg ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(in), &said
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %.2000s", name, err, &said)
	}
	return nil
}

// has reports whether a program is installed. If not, the table lists it as left out.
func (l *lab) has(program, pkg string) bool {
	_, err := exec.LookPath(program)
	if err != nil {
		l.table.leaveOut(program, "not installed (package "+pkg+")")
	}
	return err == nil
}
