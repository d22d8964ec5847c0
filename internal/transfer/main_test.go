package transfer

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node returns a Remote for a real server, with its own folder.
func node(t testing.TB) *Remote {
	t.Helper()
	s := opensshtest.Start(t)
	return reach(t, s, s.Addr)
}

// linked is node with a proxy before the server, which can cut the connection.
func linked(t testing.TB) (*Remote, *opensshtest.Link) {
	t.Helper()
	s := opensshtest.Start(t)
	l := opensshtest.Proxy(t, s.Addr)
	return reach(t, s, l.Addr), l
}

func reach(t testing.TB, s *opensshtest.Server, addr string) *Remote {
	t.Helper()
	c := ssh.New(ssh.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKey: xssh.FixedHostKey(s.HostKey),
	})
	t.Cleanup(func() { c.Close() })
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "the node's work")
	must(t, os.Mkdir(dir, 0o755))
	return &Remote{Client: c, Tools: Tools{Tar: true, SHA256: "sha256sum"}, Dir: dir}
}

// ways runs a test twice: with tar and over SFTP.
func ways(t *testing.T, test func(*testing.T, *Remote)) {
	t.Run("tar", func(t *testing.T) { test(t, node(t)) })
	t.Run("sftp", func(t *testing.T) {
		r := node(t)
		r.Tools.Tar = false
		test(t, r)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file and its parent folders.
func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

// A tree is the content of a folder by path: the text of a file, "-> target" for a link, "/" for an empty folder. A
// file is executable if its text starts with "#!".
type tree map[string]string

func (tr tree) make(t testing.TB, dir string) {
	t.Helper()
	for name, text := range tr {
		name = filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case link:
			must(t, os.Symlink(target, name))
		case text == "/":
			must(t, os.MkdirAll(name, 0o755))
		case strings.HasPrefix(text, "#!"):
			must(t, os.WriteFile(name, []byte(text), 0o755))
		default:
			must(t, os.WriteFile(name, []byte(text), 0o644))
		}
	}
}

func contents(t testing.TB, dir string) tree {
	t.Helper()
	got := make(tree)
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			got[rel] = "-> " + target
			return err
		case d.IsDir():
			names, err := os.ReadDir(name)
			if len(names) == 0 {
				got[rel] = "/"
			}
			return err
		}
		text, err := os.ReadFile(name)
		got[rel] = string(text)
		info, _ := d.Info()
		if x := info.Mode().Perm()&0o111 != 0; x != bytes.HasPrefix(text, []byte("#!")) {
			t.Errorf("%s has mode %v", rel, info.Mode())
		}
		return err
	}))
	return got
}

func (tr tree) compare(t testing.TB, dir string) {
	t.Helper()
	got := contents(t, dir)
	for name, want := range tr {
		if text, ok := got[name]; !ok || text != want {
			t.Errorf("%q is %.60q (there: %v), want %.60q", name, text, ok, want)
		}
	}
	for name := range got {
		if _, ok := tr[name]; !ok {
			t.Errorf("there should be no %q", name)
		}
	}
}
