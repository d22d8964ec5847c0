//go:build unix

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	xssh "golang.org/x/crypto/ssh"
)

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEjM47rJIh9Q5Ph8KX4XVDFZSCgkaPtAoQvdmunNCWoP"

// keys runs keys.sh in a shell, with a home.
func keys(t *testing.T, shell []string, home, in string) {
	t.Helper()
	cmd := exec.Command(shell[0], append(shell[1:], "-c", keysScript, "gputrain-keys")...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.Stdin = strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%q in %v: %v: %s", in, shell, err, out)
	}
}

// tree returns the files below a home, with their content, except folders.
func tree(t *testing.T, home string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == home {
			return err
		}
		rel, _ := filepath.Rel(home, path)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		b.WriteString(rel + " " + info.Mode().String())
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.WriteString(": " + string(text))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestKeys(t *testing.T) {
	for i, shell := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue // scripts/test lists what is missing
		}
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			const mine = "# my keys\nssh-rsa AAAA me gputrain:p-1x\nssh-rsa BBBB me\n"
			for name, found := range map[string]func(home string) error{
				"nothing":  func(string) error { return nil },
				"a folder": func(home string) error { return os.Mkdir(filepath.Join(home, ".ssh"), 0o755) },
				"an empty file": func(home string) error {
					return os.WriteFile(filepath.Join(home, ".ssh", "authorized_keys"), nil, 0o644)
				},
				"keys": func(home string) error {
					return os.WriteFile(filepath.Join(home, ".ssh", "authorized_keys"), []byte(mine), 0o640)
				},
				"a link": func(home string) error {
					if err := os.WriteFile(filepath.Join(home, "dotfile"), []byte(mine), 0o640); err != nil {
						return err
					}
					return os.Symlink("../dotfile", filepath.Join(home, ".ssh", "authorized_keys"))
				},
			} {
				if i > 0 && name != "nothing" && name != "a link" {
					continue // one shell suffices
				}
				home := filepath.Join(t.TempDir(), "a home")
				if err := os.MkdirAll(home, 0o700); err != nil {
					t.Fatal(err)
				}
				if name != "nothing" && name != "a folder" {
					if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				if err := found(home); err != nil {
					t.Fatal(err)
				}
				before := tree(t, home)
				keys(t, shell, home, "remove p-1\n")
				if got := tree(t, home); got != before {
					t.Errorf("%s: removing nothing leaves\n%s", name, got)
				}
				keys(t, shell, home, "add p-1\n"+aKey+"\n"+aKey+"2\nend\n")
				keys(t, shell, home, "add p-1\n"+aKey+"\nend\n") // by a program that attaches
				keys(t, shell, home, "add p-10\n"+aKey+"\nend\n")
				text, err := os.ReadFile(filepath.Join(home, ".ssh", "authorized_keys"))
				if err != nil || strings.Count(string(text), "\n"+aKey)+strings.Count(string(text[:min(len(text), 11)]), "ssh-ed25519") != 3 {
					t.Errorf("%s: with three keys the file is %q, %v", name, text, err)
				}
				keys(t, shell, home, "remove p-1\n")
				text, err = os.ReadFile(filepath.Join(home, ".ssh", "authorized_keys"))
				if err != nil || strings.Count(string(text), aKey) != 1 || !strings.Contains(string(text), " gputrain:p-10") {
					t.Errorf("%s: with one key the file is %q, %v", name, text, err)
				}
				keys(t, shell, home, "remove p-10\n")
				if got := tree(t, home); got != before {
					t.Errorf("%s: at the end there is\n%sand there was\n%s", name, got, before)
				}
			}
		})
	}
}

// Keys whose end has not come are not added, not even in part. A mark says once what was made for its node.
func TestKeysAreWhole(t *testing.T) {
	home := t.TempDir()
	add := "add p-1\n" + aKey + "\n" + aKey + "2\nend"
	for n := range add {
		cmd := exec.Command("sh", "-c", keysScript, "gputrain-keys")
		cmd.Env = append(os.Environ(), "HOME="+home)
		cmd.Stdin = strings.NewReader(add[:n])
		if out, err := cmd.CombinedOutput(); err == nil || tree(t, home) != "" {
			t.Fatalf("%q: %v: %s, and there is\n%s", add[:n], err, out, tree(t, home))
		}
	}
	keys(t, []string{"sh"}, home, add+"\n")
	file := filepath.Join(home, ".ssh", "authorized_keys")
	both := []byte(aKey + " gputrain:p-1+dir+file\n" + aKey + " gputrain:p-2+file\n" + aKey + " gputrain:p-3\n")
	if err := os.WriteFile(file, both, 0o600); err != nil {
		t.Fatal(err)
	}
	keys(t, []string{"sh"}, home, "remove p-1\n")
	want := aKey + " gputrain:p-2+file+dir\n" + aKey + " gputrain:p-3+dir+file\n"
	if text, err := os.ReadFile(file); string(text) != want || err != nil {
		t.Errorf("the file is %q, %v; want %q", text, err, want)
	}
}

// Wherever the connection is cut, the keys are added once, and removed.
func TestKeysOverACutConnection(t *testing.T) {
	m := &Machine{settings: &Settings{}, name: "p-1"}
	want := ""
	for range 20 {
		pair, err := ssh.NewKeyPair()
		if err != nil {
			t.Fatal(err)
		}
		m.settings.AuthorizedKeys = append(m.settings.AuthorizedKeys, pair.Public)
		want += pair.Public + " gputrain:p-1+dir+file\n"
	}
	for n := int64(500); n < 6000; n += 500 {
		t.Run(fmt.Sprint("after ", n, " bytes"), func(t *testing.T) {
			home := t.TempDir()
			client, link := keysClient(t, home)
			link.CutAfter(n)
			if err := m.addKeys(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(filepath.Join(home, ".ssh", "authorized_keys")); string(text) != want || err != nil {
				t.Fatalf("the file is %q, %v", text, err)
			}
			for runsIn(home) && retry.Sleep(t.Context(), 5*time.Millisecond) { // a run whose connection was cut may go on
			}
			link.CutAfter(n)
			if err := m.removeKeys(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			for tree(t, home) != "" && retry.Sleep(t.Context(), 5*time.Millisecond) {
			}
		})
	}
}

// keysClient returns a client of a server whose sessions have a home of their own, and the link to it.
func keysClient(t *testing.T, home string) (*ssh.Client, *opensshtest.Link) {
	server := opensshtest.Start(t, opensshtest.Config(`SetEnv "HOME=`+home+`"`))
	link := opensshtest.Proxy(t, server.Addr)
	check, algorithms, err := ssh.HostKeys([]string{ssh.Fingerprint(server.HostKey)}, "", link.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.New(ssh.Config{
		Addr: link.Addr, User: server.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(server.Signer)}, HostKey: check, HostKeyAlgorithms: algorithms,
		Dial: func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", link.Addr) },
	})
	t.Cleanup(func() { client.Close() })
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client, link
}

// runsIn reports whether a process has a home, if the system shows that.
func runsIn(home string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	return slices.ContainsFunc(all, func(file string) bool {
		text, _ := os.ReadFile(file)
		return slices.Contains(strings.Split(string(text), "\x00"), "HOME="+home)
	})
}

// Nodes that share a login take turns.
func TestKeysAtOnce(t *testing.T) {
	home := t.TempDir()
	var all sync.WaitGroup
	for _, name := range []string{"p-0", "p-1", "p-2", "p-3"} {
		all.Go(func() {
			for range 3 {
				keys(t, []string{"sh"}, home, "add "+name+"\n"+aKey+"\nend\n")
				text, err := os.ReadFile(filepath.Join(home, ".ssh", "authorized_keys"))
				if err != nil || !strings.Contains(string(text), aKey+" gputrain:"+name) {
					t.Errorf("the key of %s is not there: %q, %v", name, text, err)
				}
				keys(t, []string{"sh"}, home, "remove "+name+"\n")
			}
		})
	}
	all.Wait()
	if got := tree(t, home); got != "" {
		t.Errorf("left is\n%s", got)
	}
}

// A node whose lease has lapsed removes the keys itself.
func TestKeysAtLapse(t *testing.T) {
	home := t.TempDir()
	m := &Machine{settings: &Settings{AuthorizedKeys: []string{aKey}}, name: "p-1"}
	keys(t, []string{"sh"}, home, "add p-1\n"+aKey+"\nend\n")
	for _, text := range []string{"", "echo then"} {
		cmd := exec.Command("sh", "-c", `eval "$1"; echo "$GPUTRAIN_REMOVE."`, "sh", m.removeKeysAtLapse(text))
		cmd.Env = append(os.Environ(), "HOME="+home)
		want := map[string]string{"": "1.\n", "echo then": "then\n.\n"}[text]
		if out, err := cmd.CombinedOutput(); string(out) != want || err != nil {
			t.Errorf("with the text %q it prints %q, %v", text, out, err)
		}
		if got := tree(t, home); got != "" {
			t.Errorf("left is\n%s", got)
		}
	}
	m.settings = &Settings{}
	if got := m.removeKeysAtLapse("as it was"); got != "as it was" {
		t.Errorf("without keys: %q", got)
	}
}
