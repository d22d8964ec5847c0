//go:build unix

package local

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/strangertest"
	"github.com/gputrain/gputrain/providers/driver"
)

// Other versions of this provider, and scripts on nodes, find what a node leaves on disk and
// in the environments of its processes. These bytes must not change.
func TestGoldenHome(t *testing.T) {
	p := newPool(t, Config{})
	p.info.Owner, p.info.Lease, p.info.Expires = "host.12ab34cd/1/2", 90*time.Second, time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	kept, signer := newKey(t)
	req := p.request(4)
	req.Nodes = req.Nodes[3:]
	req.Nodes[0].HostKey = driver.HostKey{Private: driver.Secret(kept), Public: string(signer.PublicKey().Marshal())}
	nodes, err := p.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	id := nodes[0].ID
	home := filepath.Join(p.dir, "gputrain-"+id)
	if got := names(t, home); !slices.Equal(got, []string{".gputrain-hostkey", ".gputrain-node"}) {
		t.Errorf("the home has %q", got)
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o700, ".gputrain-hostkey": 0o600, ".gputrain-node": 0o600} {
		if info, err := os.Lstat(filepath.Join(home, name)); err != nil || info.Mode() != mode {
			t.Errorf("%q: %v, %v; want %v", name, info, err, mode)
		}
	}
	if got := read(t, home, ".gputrain-hostkey"); got != kept {
		t.Errorf("the host key is kept as %q; want %q", got, kept)
	}
	mark := regexp.MustCompile(`"token":"([A-Z2-7]{26})"`)
	token := mark.FindStringSubmatch(read(t, home, ".gputrain-node"))
	if token == nil {
		t.Fatalf("the mark has no token: %s", read(t, home, ".gputrain-node"))
	}
	got := regexp.MustCompile(`"created":"[^"]*Z"`).ReplaceAllString(mark.ReplaceAllString(read(t, home, ".gputrain-node"), `"token":"T"`), `"created":"C"`)
	want := `{"pool":"` + p.info.ID + `","token":"T","owner":"host.12ab34cd/1/2","rank":3,"lease":90,"expires":"2040-01-02T03:04:05Z","created":"C"}`
	if got != want {
		t.Errorf("the mark is %s\nwant %s", got, want)
	}
	env := p.output(nodes[0], `echo "$GPUTRAIN_POOL $GPUTRAIN_NODE $GPUTRAIN_HOMES $GPUTRAIN_LOCAL_TOKEN"`)
	if want := p.info.ID + " " + id + " " + p.Driver.(*localDriver).real + " " + token[1] + "\n"; env != want {
		t.Errorf("a process has %q; want %q", env, want)
	}
	script := p.Driver.(driver.Scripter).Scripts(driver.Instance{ID: "p-0"}).SelfDestruct
	if got, want := strings.ReplaceAll(script, p.dir, "/homes")+"\n", read(t, "testdata", "self-destruct.golden"); got != want {
		t.Errorf("the text that ends a node is\n%s\nwant\n%s", got, want)
	}
}

// If other users can write to the folder, homes are in a private folder within it.
func TestGoldenFolder(t *testing.T) {
	shared := strangertest.Shared(t)
	p := newPool(t, Config{Dir: shared})
	in := p.launch(1)[0]
	home := p.output(in, "pwd")
	if want := filepath.Join(shared, "gputrain.local-"+p.output(in, "printf %s $(id -u)"), "gputrain-"+in.ID) + "\n"; home != want {
		t.Errorf("the home is %q; want %q", home, want)
	}
}

// A home of a version without tokens is found and ended, but not served.
func TestGoldenHomeOfAnOlderVersion(t *testing.T) {
	p := newPool(t, Config{})
	home := filepath.Join(p.dir, "gputrain-"+p.info.ID+"-7")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".gputrain-node": `{"pool":"` + p.info.ID + `","owner":"me","rank":7}`, "file": "x"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := p.info.ID + "-7"
	old := strangertest.Sleeping(t, "GPUTRAIN_POOL="+p.info.ID, "GPUTRAIN_NODE="+id)
	if got, err := p.Describe(t.Context(), id); err != nil || got[0].State != driver.InstanceStopped || got[0].Rank != 7 {
		t.Errorf("described %+v, %v", got, err)
	}
	if held, err := p.List(t.Context(), p.info.ID); err != nil || len(held) != 2 || held[0].ID != id || held[0].Owner != "me" || held[1].ID != home {
		t.Errorf("listed %+v, %v", held, err)
	}
	if err := p.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
	if left := names(t, p.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat("/proc/self/environ"); err == nil {
		eventually(t, "the end of a process of an older version", func() bool { return !strangertest.Lives(t, old) })
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
