//go:build unix

package gputrain_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// An ownHost is a machine that its user has already: an OpenSSH server behind
// a link with faults, whose logins have a home of their own.
type ownHost struct {
	srv  *opensshtest.Server
	link *opensshtest.Link
	home string
}

// newHost starts a host. When the test ends, and its pools with it, the host
// must be as it was found. Further variables are those of its logins.
func newHost(t testing.TB, env ...string) *ownHost {
	t.Helper()
	return newHostAt(t, filepath.Join(t.TempDir(), "home"), env...)
}

// newHostAt starts a host with a home at a path. What it holds when it is made
// stays.
func newHostAt(t testing.TB, home string, env ...string) *ownHost {
	t.Helper()
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	line := "SetEnv"
	for _, e := range append([]string{"HOME=" + home}, env...) {
		line += ` "` + e + `"`
	}
	found := tree(home)
	srv := opensshtest.Start(t, opensshtest.Config(line))
	h := &ownHost{srv: srv, link: opensshtest.Proxy(t, srv.Addr), home: home}
	t.Cleanup(func() { h.wantAsFound(t, found...) })
	return h
}

// host is how the pool reaches it: by the link, with a key file and a pinned key.
func (h *ownHost) host() ssh.Host {
	return ssh.Host{Addr: h.link.Addr, User: h.srv.User, KeyFile: h.srv.KeyFile, HostKey: xssh.FingerprintSHA256(h.srv.HostKey)}
}

// wantAsFound waits until the host has no processes and only these files.
func (h *ownHost) wantAsFound(t testing.TB, files ...string) {
	t.Helper()
	var left []string
	if settles(func() bool {
		left = append(processesWith("HOME="+h.home), tree(h.home)...)
		return slices.Equal(left, files)
	}) {
		return
	}
	t.Errorf("the host has\n\t%s\nand not as before\n\t%s", strings.Join(left, "\n\t"), strings.Join(files, "\n\t"))
}

// openHosts opens a pool on hosts. When the test ends, no process knows of the
// pool any more.
func openHosts(t testing.TB, spec gputrain.Spec, opts []gputrain.Option, hosts ...*ownHost) *gputrain.Compute {
	t.Helper()
	var c ssh.Config
	for _, h := range hosts {
		c.Hosts = append(c.Hosts, h.host())
	}
	spec.Nodes = len(hosts)
	return openOwn(t, c, spec, opts...)
}

func openOwn(t testing.TB, c ssh.Config, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	opts = append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Open(t.Context(), c, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lost := slices.ContainsFunc(pool.Nodes(), func(n gputrain.Node) bool { return n.State == gputrain.NodeLost })
		err := pool.Close()
		if _, leak := errors.AsType[*gputrain.LeakError](err); lost && !leak || !lost && err != nil {
			t.Errorf("close, with a node that is lost %v: %v", lost, err)
		}
		var left []string
		if !settles(func() bool { left = processesWith("GPUTRAIN_POOL=" + pool.ID()); return len(left) == 0 }) {
			t.Errorf("processes of the pool are left:\n\t%s", strings.Join(left, "\n\t"))
		}
	})
	return pool
}

// tree lists what is below a folder, by its path there.
func tree(dir string) (files []string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return nil
	})
	return files
}

// processesWith lists the processes whose environment has the variable, by pid
// and command line. Only Linux shows environments.
func processesWith(variable string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == variable }) {
			line, _ := os.ReadFile(dir + "/cmdline")
			found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// lines returns how many lines a file has: how often a task ran.
func lines(path string) int {
	b, _ := os.ReadFile(path)
	return bytes.Count(b, []byte("\n"))
}

// exists reports whether there is such a file.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
