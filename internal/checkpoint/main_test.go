package checkpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/transfer"
	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A folders is the Files of a node that is a folder of this computer. fail, if not nil, is asked before each call.
type folders struct {
	mu   sync.Mutex
	fail func(op string) error
	sent []string // the names of the files that were uploaded
}

func (f *folders) set(fail func(op string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *folders) ask(op string) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(op)
}

func (f *folders) Script(ctx context.Context, _, text string, _ int64, vars ...string) (string, error) {
	if err := f.ask("script"); err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "sh", "-c", text)
	c.Env = append(os.Environ(), vars...)
	out, err := c.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return string(out), err
}

func (f *folders) Contents(_ context.Context, dir, name string, _ transfer.Limits) ([]transfer.Content, error) {
	if err := f.ask("contents"); err != nil {
		return nil, err
	}
	all, err := localContents(filepath.Join(dir, name), name)
	for i := range all {
		if all[i].Mode.IsDir() {
			all[i].Size = 0
		}
	}
	return all, err
}

func (f *folders) FetchFiles(_ context.Context, files []transfer.Content, to string, o transfer.FetchOptions) (came []transfer.File, err error) {
	for _, c := range files {
		if err := f.ask("fetch " + c.Name); err != nil {
			return came, err
		}
		b, err := os.ReadFile(filepath.Join(o.Dir, c.Name))
		if err != nil {
			return came, err
		}
		at := filepath.Join(to, c.Name)
		_ = os.Remove(at)
		if err := os.WriteFile(at, b, 0o600); err != nil {
			return came, err
		}
		came = append(came, transfer.File{Name: c.Name, Size: int64(len(b))})
	}
	return came, nil
}

func (f *folders) Sums(_ context.Context, dir string, names []string) (sums []string, err error) {
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			return nil, err
		}
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(b)))
	}
	return sums, nil
}

func (f *folders) Upload(_ context.Context, local, remote string, _ transfer.Options) error {
	return filepath.WalkDir(local, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(local, p)
		if err != nil {
			return err
		}
		to := filepath.Join(remote, below)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		if err := f.ask("upload " + below); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if there, err := os.Lstat(to); err == nil && there.Size() == info.Size() && there.ModTime().Unix() == info.ModTime().Unix() {
			return nil
		}
		f.mu.Lock()
		f.sent = append(f.sent, below)
		f.mu.Unlock()
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o600); err != nil {
			return err
		}
		return os.Chtimes(to, info.ModTime(), info.ModTime())
	})
}

// fakeNode returns a node whose files are in a new folder of this computer.
func fakeNode(t testing.TB, rank int) (Node, *folders) {
	dir, f := t.TempDir(), &folders{}
	return Node{Rank: rank, Name: fmt.Sprintf("node %d", rank), Dir: filepath.Join(dir, "a b/checkpoints"), Notice: filepath.Join(dir, "notices", "n"), Files: f}, f
}

// realNodes returns nodes of one real server, and the link to it.
func realNodes(t testing.TB, count int) ([]Node, *opensshtest.Link) {
	t.Helper()
	s := opensshtest.Start(t)
	l := opensshtest.Proxy(t, s.Addr)
	c := ssh.New(ssh.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr)
		},
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKey: xssh.FixedHostKey(s.HostKey),
	})
	t.Cleanup(func() { c.Close() })
	must(t, c.Connect(t.Context()))
	var nodes []Node
	for i := range count {
		n, _ := fakeNode(t, i)
		n.Files = transfer.Mirror{Remote: &transfer.Remote{Client: c, Tools: transfer.Tools{Tar: true, SHA256: "sha256sum"}, Dir: filepath.Dir(n.Notice)}}
		nodes = append(nodes, n)
	}
	return nodes, l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A tree is the content of a folder by path: the text of a file, "-> target" for a link, "/" for an empty folder.
type tree map[string]string

func (tr tree) make(t testing.TB, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for name, text := range tr {
		name = filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case link:
			must(t, os.Symlink(target, name))
		case text == "/":
			must(t, os.MkdirAll(name, 0o755))
		default:
			must(t, os.WriteFile(name, []byte(text), 0o644))
		}
	}
}

// save writes a checkpoint as a program does: under a hidden name, and then by a rename.
func (tr tree) save(t testing.TB, n Node, name string) {
	t.Helper()
	stage := filepath.Join(n.Dir, ".tmp-"+name)
	tr.make(t, stage)
	time.Sleep(20 * time.Millisecond) // a tick of the file system's clock, as any other program takes
	must(t, os.Rename(stage, filepath.Join(n.Dir, name)))
}

func contents(t testing.TB, dir string) tree {
	t.Helper()
	all, err := localContents(dir, "x")
	must(t, err)
	got := tree{}
	for _, c := range all {
		name := strings.TrimPrefix(c.Name, "x/")
		switch {
		case c.Name == "x":
		case c.Mode.IsDir():
			if names, err := os.ReadDir(filepath.Join(dir, name)); err == nil && len(names) == 0 {
				got[name] = "/"
			}
		case c.Mode.IsRegular():
			b, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			got[name] = string(b)
		default:
			got[name] = "-> " + c.Target
		}
	}
	return got
}

func (tr tree) compare(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
		return
	}
	got := contents(t, dir)
	for name, want := range tr {
		if text, ok := got[name]; !ok || text != want {
			t.Errorf("%s: %q is %.60q (there: %v), want %.60q", dir, name, text, ok, want)
		}
	}
	for name := range got {
		if _, ok := tr[name]; !ok {
			t.Errorf("%s: there should be no %q", dir, name)
		}
	}
}

// names lists a folder without hidden names.
func names(t testing.TB, dir string) (shown []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			shown = append(shown, e.Name())
		}
	}
	return shown
}

func wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}

// reports collect what a Keeper reports.
type reports struct {
	mu  sync.Mutex
	all []Report
}

func (r *reports) add(one Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
}

func (r *reports) list() []Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// errs returns the texts of the errors.
func (r *reports) errs() string {
	var b strings.Builder
	for _, one := range r.list() {
		if one.Err != nil {
			fmt.Fprintln(&b, one.Err)
		}
	}
	return b.String()
}

func newKeeper(t testing.TB, c Config) (*Keeper, *reports) {
	r := &reports{}
	if c.To == "" {
		c.To = filepath.Join(t.TempDir(), "here")
	}
	c.Report = r.add
	if c.Every == 0 {
		c.Every = 20 * time.Millisecond
	}
	k := New(c)
	k.settle = 60 * time.Millisecond
	return k, r
}

// restore is Restore, which must succeed with a checkpoint of this name.
func restore(t testing.TB, k *Keeper, want string, nodes ...Node) {
	t.Helper()
	name, step, err := k.Restore(t.Context(), nodes)
	if err != nil || name != want || step != stepOf(want) {
		t.Fatalf("restored %q, step %d, %v; want %q", name, step, err, want)
	}
}

// watch starts to watch, and returns what ends that.
func watch(t testing.TB, k *Keeper, grew func(), seen func(int64), nodes ...Node) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.Watch(ctx, nodes, grew, seen) })
	return func() { cancel(); wg.Wait() }
}

// until waits until what is true.
func until(t testing.TB, what func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !what(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}
