//go:build unix

package reach

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
)

// OpenSSH's own programs reach nodes by the file.
func TestWriteSSHConfig(t *testing.T) {
	client, scp := opensshtest.Client(t, "ssh"), opensshtest.Client(t, "scp")
	onEach(t, gputrain.Spec{}, func(t *testing.T, pool *gputrain.Compute) {
		dir := filepath.Join(t.TempDir(), "with a space, 100%h")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "pool.ssh")
		if err := pool.WriteSSHConfig(path); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{path, path + ".known_hosts"} {
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
		for _, host := range []string{"node-0", pool.Nodes()[0].Name} {
			if out, err := program(t, client, "-F", path, host, "echo there; exit 7"); out != "there" || err == nil || err.Error() != "exit status 7" {
				t.Errorf("ssh %s: %q, %v", host, out, err)
			}
		}
		sent := filepath.Join(dir, "sent")
		e2etest.WriteText(t, sent, "by scp")
		if out, err := program(t, scp, "-q", "-F", path, sent, "node-0:"); err != nil {
			t.Errorf("scp there: %v: %s", err, out)
		}
		if out, err := program(t, scp, "-q", "-F", path, "node-0:sent", filepath.Join(dir, "back")); err != nil {
			t.Errorf("scp back: %v: %s", err, out)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "back")); string(got) != "by scp" {
			t.Errorf("scp brought %q, %v", got, err)
		}
		if out, err := program(t, client, "-F", path, "node-0", "rm sent"); err != nil {
			t.Errorf("rm: %v: %s", err, out)
		}
		// A key that is not the pinned one is refused.
		known, err := os.ReadFile(path + ".known_hosts")
		if err != nil {
			t.Fatal(err)
		}
		_, other := newKey(t)
		name := pool.Nodes()[0].Name
		e2etest.WriteText(t, path+".known_hosts", name+" "+other+"\n")
		if out, err := program(t, client, "-F", path, "node-0", "true"); err == nil || !strings.Contains(out, "REMOTE HOST IDENTIFICATION HAS CHANGED") {
			t.Errorf("another host key: %v: %s", err, out)
		}
		e2etest.Write(t, path+".known_hosts", known)
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "pool*")); left != nil {
			t.Errorf("after Close: %q", left)
		}
	})
}

func TestRsyncBySSHConfig(t *testing.T) {
	rsync := opensshtest.Client(t, "rsync")
	pool := e2etest.Open(t, gputrain.Spec{})
	dir := t.TempDir()
	path := filepath.Join(dir, "my pool.ssh")
	if err := pool.WriteSSHConfig(path); err != nil {
		t.Fatal(err)
	}
	e2etest.WriteText(t, filepath.Join(dir, "tree", "a", "b"), "by rsync")
	// rsync splits the command at spaces, and takes quotes.
	if out, err := program(t, rsync, "-a", "-e", "ssh -F '"+path+"'", filepath.Join(dir, "tree"), "node-0:"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := program(t, rsync, "-a", "-e", "ssh -F '"+path+"'", "node-0:tree/", filepath.Join(dir, "back")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "back", "a", "b")); string(got) != "by rsync" {
		t.Errorf("got %q, %v", got, err)
	}
}

// The file follows the nodes of the pool, as long as it is the pool's.
func TestSSHConfigFollowsTheNodes(t *testing.T) {
	pool := e2etest.Open(t, gputrain.Spec{})
	dir := t.TempDir()
	path, theirs, edited := filepath.Join(dir, "pool.ssh"), filepath.Join(dir, "theirs"), filepath.Join(dir, "edited")
	e2etest.WriteText(t, theirs, "Host mine\n")
	e2etest.WriteText(t, filepath.Join(dir, "keys.known_hosts"), "mine ssh-ed25519 AAAA\n")
	if err := os.Symlink(path, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"a file of the user's": theirs, "a file with the user's host keys": filepath.Join(dir, "keys"), "a folder": dir, "no path": "",
		"a character that the format lacks": filepath.Join(dir, "a\"b"),
	} {
		if err := pool.WriteSSHConfig(bad); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pool.WriteSSHConfig(filepath.Join(dir, "missing", "c")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is missing: %v", err)
	}
	for _, p := range []string{path, path, edited} {
		if err := pool.WriteSSHConfig(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.WriteSSHConfig(filepath.Join(dir, "link")); !errors.Is(err, gputrain.ErrInvalid) {
		t.Errorf("a link: %v", err)
	}
	e2etest.WriteText(t, edited, "# mine now\n")
	if err := pool.Resize(3); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "three nodes in the file", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "\nHost node-2 "+pool.Nodes()[2].Name+"\n")
	})
	if out, err := program(t, opensshtest.Client(t, "ssh"), "-F", path, "node-2", "echo $HOME"); err != nil || !strings.Contains(out, pool.Nodes()[2].Name) {
		t.Errorf("the last node is %q, %v", out, err)
	}
	if err := pool.Resize(1); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "one node in the file", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Count(string(text), "\nHost ") == 1
	})
	// A later pool may overwrite what an earlier one has left.
	next := e2etest.Open(t, gputrain.Spec{})
	if err := next.WriteSSHConfig(path); err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), next.ID()) {
		t.Errorf("the next pool's file is %q, %v", text, err)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := "[edited keys.known_hosts link theirs]"; err != nil || fmt.Sprint(left) != want {
		t.Errorf("left are %v, want %s", left, want)
	}
}

// Hosts of the user's own are logged in to as the provider is configured: by a key file, or by the agent.
func TestSSHConfigOfOwnLogins(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenOwn(t, ssh.Config{Hosts: []ssh.Host{h.Host()}}, gputrain.Spec{})
	path := filepath.Join(t.TempDir(), "c")
	if err := pool.WriteSSHConfig(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "\tIdentityFile \""+h.Server.KeyFile+"\"\n\tIdentitiesOnly yes\n") {
		t.Errorf("%s, %v", text, err)
	}
}
