//go:build unix

package bootstrap

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/supervisor"
)

// Every field of an image counts in its key, also those that are added later, and nothing else does.
func TestBakeKey(t *testing.T) {
	base := Image{Setup: []string{"one"}}
	key := BakeKey(base)
	if len(key) != 64 || BakeKey(base) != key {
		t.Fatalf("the key is %q", key)
	}
	v := reflect.ValueOf(base)
	required := filepath.Join(t.TempDir(), "requirements.txt")
	write := func(text string) string {
		if err := os.WriteFile(required, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return BakeKey(Image{Requirements: required})
	}
	if first := write("a==1\n"); write("a==2\n") == first || write("a==1\n") != first {
		t.Error("the content of Requirements does not count")
	}
	if BakeKey(Image{Requirements: required + ".missing", Apt: []string{"perl"}}) != "" {
		t.Error("an image whose Requirements are missing has a key")
	}
	for i := range v.NumField() {
		name, changed := v.Type().Field(i).Name, base
		if strings.HasPrefix(name, "Docker") { // tested below
			continue
		}
		fill := func(img *Image) {
			if set(t, reflect.ValueOf(img).Elem().Field(i)); name == "Requirements" {
				img.Requirements = required
			}
		}
		fill(&changed)
		other := BakeKey(changed)
		if other == key || other == "" {
			t.Errorf("%s does not count", name)
		}
		alone := Image{}
		fill(&alone)
		if (BakeKey(alone) == "") != slices.Contains(modifiers, name) {
			t.Errorf("an image with %s alone has the key %q", name, BakeKey(alone))
		}
	}
	for _, img := range []Image{{Docker: "debian:12"}, {DockerUser: "me"}, {DockerPassword: "hunter2"}} {
		if img.Setup = base.Setup; BakeKey(img) != "" {
			t.Errorf("an image with a container has the key %q", BakeKey(img))
		}
	}
	if BakeKey(Image{}) != "" || BakeKey(Image{Apt: []string{}, Env: map[string]string{}}) != "" {
		t.Error("an image that asks for nothing has a key")
	}
	if BakeKey(Image{Setup: base.Setup, Apt: []string{}, Env: map[string]string{}}) != key {
		t.Error("an empty list counts")
	}
	if BakeKey(Image{Setup: []string{"a", "b"}}) == BakeKey(Image{Setup: []string{"b", "a"}}) {
		t.Error("the order of commands does not count")
	}
	var same []string
	for range 20 {
		same = append(same, BakeKey(Image{Setup: base.Setup, Env: map[string]string{"A": "1", "B": "2", "C": "3", "D": "4"}}))
	}
	if len(slices.Compact(same)) != 1 {
		t.Error("the key of a map changes")
	}
	for _, name := range modifiers {
		if _, ok := v.Type().FieldByName(name); !ok {
			t.Errorf("an Image has no field %s", name)
		}
	}
}

// set gives a field another value than its zero and than TestBakeKey's base.
func set(t *testing.T, field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString("3.11")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int64:
		field.SetInt(int64(time.Minute))
	case reflect.Slice:
		field.Set(reflect.ValueOf([]string{"another"}))
	case reflect.Map:
		field.Set(reflect.ValueOf(map[string]string{"NAME": "value"}))
	default:
		t.Fatalf("a field of kind %v: extend this test", field.Kind())
	}
}

// A sealed machine is a folder that stands for one.
type sealedMachine struct {
	t      *testing.T
	dir    string // below it are home, system and bin
	facts  supervisor.Facts
	seal   Seal
	system string // GPUTRAIN_SYSTEM_ROOT
	path   string // PATH; bin and this computer's programs if it is empty
}

const poolKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIpool the-pool"

func newSealed(t *testing.T) *sealedMachine {
	t.Helper()
	dir := t.TempDir()
	m := &sealedMachine{t: t, dir: dir, system: filepath.Join(dir, "system"), seal: Seal{Key: "k1", PublicKey: poolKey, KeyMark: " gputrain:bake-1-0"}}
	home := filepath.Join(dir, "home")
	root := filepath.Join(home, ".gputrain", "pools", "bake-1-0")
	m.facts = supervisor.Facts{Home: home, Root: root, WorkDir: filepath.Join(root, "work"), CacheDir: filepath.Join(home, ".gputrain", "cache")}
	m.write("bin/id", "#!/bin/sh\necho 0\n")
	for name, text := range map[string]string{
		"system/etc/passwd":                          "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n",
		"system/root/.ssh/authorized_keys":           "ssh-rsa AAAAother other\n" + poolKey + "\n",
		"system/home/me/.ssh/authorized_keys":        poolKey + "\n",
		"home/.ssh/authorized_keys":                  "command=\"x\" " + poolKey + "\nssh-rsa AAAAuser gputrain:bake-1-0+dir+file\nssh-rsa AAAAown own\nssh-rsa AAAAuser2 gputrain:bake-1-0+dir+file\n",
		"system/etc/machine-id":                      "0123456789abcdef\n",
		"system/var/lib/dbus/machine-id":             "0123456789abcdef\n",
		"system/var/lib/systemd/random-seed":         "seed",
		"system/var/log/auth.log":                    "Accepted publickey",
		"system/var/log/journal/x/system.journal":    "Accepted publickey",
		"system/var/lib/cloud/instances/i-1/user":    "ssh_keys",
		"system/var/lib/cloud/data/instance-id":      "i-1",
		"system/var/lib/cloud/seed/x":                "the image's own",
		"system/etc/systemd/system/gputrain-x.timer": "x",
		"home/.bash_history":                         "export TOKEN=1",
		"home/.cache/pip/x":                          "x",
		"home/.gputrain/pools/bake-1-0/t/mark":       "token",
		"home/.gputrain/pools/bake-1-0/work/file":    "made",
		"home/.gputrain/pools/bake-1-0/work.sync":    "the manifest",
		"home/.gputrain/pools/bake-1-0/phases/aa":    "none",
		"home/.gputrain/cache/venv-1/bin/python":     "x",
		"home/.gputrain/cache/baked/an-older-one/x":  "x",
	} {
		m.write(name, text)
	}
	return m
}

func (m *sealedMachine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// run feeds a text to a shell on the machine, and returns its output if it fails.
func (m *sealedMachine) run(shell string, text string, err error) string {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	words := strings.Fields(shell)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(text)
	path := cmp.Or(m.path, filepath.Join(m.dir, "bin")+":"+os.Getenv("PATH"))
	cmd.Env = []string{"HOME=" + m.facts.Home, "PATH=" + path, "GPUTRAIN_SYSTEM_ROOT=" + m.system}
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out) + err.Error()
	}
	return ""
}

// files returns the files below a folder of the machine, with their sizes if they are empty.
func (m *sealedMachine) files(dir string) (all []string) {
	_ = filepath.WalkDir(filepath.Join(m.dir, dir), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(m.dir, path)
			if info, err := d.Info(); err == nil && info.Size() == 0 {
				name += " is empty"
			}
			all = append(all, name)
		}
		return nil
	})
	return all
}

func (m *sealedMachine) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(text)
}

// Under every shell a machine is cleaned of keys, logs and identity, and keeps what its phases have made.
func TestSeal(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash", "busybox sh"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(strings.Fields(shell)[0]); err != nil {
				t.Skipf("%v: install it", err) // an error under GPUTRAIN_REQUIRE_ALL, as in CI
			}
			m := newSealed(t)
			m.write("bin/cloud-init", "#!/bin/sh\necho cloud-init was called on the computer of the test; exit 1\n")
			m.write("system/etc/ssh/ssh_host_ed25519_key", "private")
			m.write("system/etc/ssh/sshd_config", "x")
			text, err := m.seal.Keep(m.facts)
			if said := m.run(shell, text, err); said != "" {
				t.Fatal(said)
			}
			text, err = m.seal.Clean(m.facts)
			if said := m.run(shell, text, err); said != "" {
				t.Fatal(said)
			}
			kept := "home/.gputrain/cache/baked/k1/"
			want := []string{kept + "phases/aa", kept + "was", kept + "work/file", kept + "work.sync", "home/.gputrain/cache/venv-1/bin/python", "home/.ssh/authorized_keys"}
			if got := m.files("home"); !slices.Equal(got, want) {
				t.Errorf("the home has %q; want %q", got, want)
			}
			want = []string{
				"system/etc/machine-id is empty", "system/etc/passwd", "system/etc/ssh/sshd_config", "system/home/me/.ssh/authorized_keys", "system/root/.ssh/authorized_keys",
				"system/var/lib/cloud/seed/x", "system/var/log/auth.log is empty",
			}
			if got := m.files("system"); !slices.Equal(got, want) {
				t.Errorf("the system has %q; want %q", got, want)
			}
			for name, want := range map[string]string{
				"home/.ssh/authorized_keys": "ssh-rsa AAAAown own", "system/root/.ssh/authorized_keys": "ssh-rsa AAAAother other", "system/home/me/.ssh/authorized_keys": "",
				kept + "was": m.facts.WorkDir,
			} {
				if got := strings.TrimSpace(m.read(name)); got != want {
					t.Errorf("%s has %q; want %q", name, got, want)
				}
			}
		})
	}
}

// A machine that could not be cleaned is no image.
func TestSealRefuses(t *testing.T) {
	t.Run("nothing makes host keys", func(t *testing.T) {
		m := newSealed(t)
		m.path = filepath.Join(m.dir, "bin") // this computer may have cloud-init
		for _, name := range []string{"sh", "rm", "grep"} {
			program, err := exec.LookPath(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, filepath.Join(m.path, name)); err != nil {
				t.Fatal(err)
			}
		}
		m.write("system/etc/ssh/ssh_host_ed25519_key", "private")
		text, err := m.seal.Clean(m.facts)
		if said := m.run("sh", text, err); !strings.Contains(said, "nothing on this machine would make new SSH host keys") || m.read("system/etc/ssh/ssh_host_ed25519_key") == "" {
			t.Errorf("%q", said)
		}
	})
	t.Run("no key", func(t *testing.T) {
		m := newSealed(t)
		m.seal.PublicKey, m.seal.KeyMark = "", ""
		keys := m.read("home/.ssh/authorized_keys")
		text, err := m.seal.Clean(m.facts)
		if said := m.run("sh", text, err); said != "" || m.read("home/.ssh/authorized_keys") != keys {
			t.Errorf("%q, and the keys are %q", said, m.read("home/.ssh/authorized_keys"))
		}
	})
	t.Run("no root", func(t *testing.T) {
		m := newSealed(t)
		m.write("bin/id", "#!/bin/sh\necho 1000\n")
		m.write("bin/sudo", "#!/bin/sh\nexit 1\n")
		m.write("bin/doas", "#!/bin/sh\nexit 1\n")
		text, err := m.seal.Clean(m.facts)
		if said := m.run("sh", text, err); !strings.Contains(said, "needs root") {
			t.Errorf("%q", said)
		}
	})
	t.Run("sudo", func(t *testing.T) {
		m := newSealed(t)
		m.write("bin/id", "#!/bin/sh\necho 1000\n")
		m.write("bin/sudo", "#!/bin/sh\n[ \"$1\" = -n ] || exit 1\nshift\nexec \"$@\"\n")
		text, err := m.seal.Clean(m.facts)
		if said := m.run("sh", text, err); said != "" || m.read("system/etc/machine-id") != "" {
			t.Errorf("%q", said)
		}
	})
	// Without programs that could remove anything, as this computer is not the machine.
	t.Run("another home", func(t *testing.T) {
		m := newSealed(t)
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Fatal(err)
		}
		text, err := m.seal.Clean(m.facts)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(sh)
		cmd.Stdin = strings.NewReader(text)
		cmd.Env = []string{"HOME=" + m.facts.Home, "PATH=" + filepath.Join(m.dir, "bin")}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "this is no machine of its own") || len(m.files("home/.gputrain/pools")) == 0 {
			t.Errorf("%s, %v", out, err)
		}
	})
	if _, err := (Seal{SelfDestruct: "\x00"}).Keep(supervisor.Facts{}); err == nil {
		t.Error("a NUL byte is no error")
	}
}

// A machine ends itself when its time is over.
func TestSealedMachineEndsItself(t *testing.T) {
	m := newSealed(t)
	m.seal.SelfDestruct = "false; echo 'it'\"'\"'s over' >" + m.dir + "/over"
	text, err := m.seal.Keep(m.facts)
	if said := m.run("sh", text, err); said != "" {
		t.Fatal(said)
	}
	for m.read("over") != "it's over\n" && retry.Sleep(t.Context(), 5*time.Millisecond) {
	}
}

// What a baked image has kept is this pool's, once; a later Setup command that changed runs.
func TestRestore(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"ls", "rmdir", "ln", "chmod"} {
		n.link(name)
	}
	base := filepath.Dir(n.facts.CacheDir)
	old := filepath.Join(base, "pools", "bake-1-0", "work")
	img := Image{Setup: []string{"echo one >>setups; pwd >where"}}
	run := func(img Image) (events []string) {
		t.Helper()
		err := Run(t.Context(), n, nil, img, Options{Baked: "k1", Event: func(phase Phase, s State, _ time.Duration) {
			if s != Started {
				events = append(events, phase.Name+" "+s.String())
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
	want(run(img), "baked image done", "setup 1/1 done") // the image has nothing
	keep, err := (Seal{Key: "k1"}).Keep(supervisor.Facts{Root: n.facts.Root, WorkDir: n.facts.WorkDir, CacheDir: n.facts.CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh")
	cmd.Stdin = strings.NewReader(keep)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(n.facts.CacheDir, "baked", "k1", "was"), []byte(old+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(n.facts.WorkDir, 0o700); err != nil {
		t.Fatal(err)
	}
	want(run(img), "baked image cached", "setup 1/1 cached")
	if text, err := os.ReadFile(filepath.Join(n.facts.WorkDir, "setups")); string(text) != "one\n" {
		t.Errorf("the working directory has %q, %v", text, err)
	}
	if to, err := os.Readlink(old); to != n.facts.WorkDir {
		t.Errorf("where the working directory was there is %q, %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(n.facts.CacheDir, "baked")); !os.IsNotExist(err) {
		t.Errorf("the cache has it still: %v", err)
	}
	want(run(img), "baked image done", "setup 1/1 cached")
	img.Setup = append(img.Setup, "echo two >>setups")
	want(run(img), "baked image done", "setup 1/2 cached", "setup 2/2 done")
}
