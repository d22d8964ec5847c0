package bootstrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(phases []Phase) []string {
	var names []string
	for _, p := range phases {
		names = append(names, p.Name)
	}
	return names
}

func TestPlan(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		img  Image
		want []string
	}{
		{Image{}, nil},
		{Image{Env: map[string]string{"A": "b"}}, nil},
		{Image{Python: "3.12"}, []string{"python"}},
		{Image{Pip: []string{"numpy"}}, []string{"python", "pip"}},
		{Image{Apt: []string{"git"}, Python: "3", Pip: []string{"numpy"}, Include: []string{dir}, Setup: []string{"a", "b"}},
			[]string{"packages", "python", "pip", "files", "setup 1/2", "setup 2/2"}},
		{Image{Before: []string{"x", "y"}, Apt: []string{"git"}, Setup: []string{"a"}}, []string{"before 1/2", "before 2/2", "packages", "setup 1/1"}},
		{Image{Requirements: "testdata/requirements.txt"}, []string{"python", "pip"}},
	} {
		phases, err := Plan(tt.img)
		if err != nil || !slices.Equal(names(phases), tt.want) {
			t.Errorf("%+v: %q, %v; want %q", tt.img, names(phases), err, tt.want)
		}
	}
}

// A phase's key changes with what the phase depends on, and with nothing else.
func TestPlanKeys(t *testing.T) {
	keys := func(img Image) map[string]string {
		phases, err := Plan(img)
		if err != nil {
			t.Fatal(err)
		}
		keys := make(map[string]string)
		for _, p := range phases {
			keys[p.Name] = p.Key
		}
		return keys
	}
	image := func() Image {
		return Image{Before: []string{"zero"}, Apt: []string{"git"}, Pip: []string{"numpy", "torch"}, Env: map[string]string{"A": "1"}, Setup: []string{"one", "two"}}
	}
	base := keys(image())
	for _, tt := range []struct {
		name   string
		change func(*Image)
		want   []string // phases with another key
	}{
		{"nothing", func(*Image) {}, nil},
		{"time", func(i *Image) { i.PhaseTimeout = time.Hour }, nil},
		{"apt", func(i *Image) { i.Apt = []string{"gi", "t"} }, []string{"packages", "setup 1/2", "setup 2/2"}},
		{"pip", func(i *Image) { i.Pip = []string{"numpytorch"} }, []string{"pip", "python", "setup 1/2", "setup 2/2"}},
		{"version", func(i *Image) { i.Python = "3.12" }, []string{"pip", "python", "setup 1/2", "setup 2/2"}},
		{"index", func(i *Image) { i.PipIndexes = []string{"https://a.example"} }, []string{"pip", "python", "setup 1/2", "setup 2/2"}},
		{"before", func(i *Image) { i.Before[0] = "null" }, []string{"before 1/1", "pip", "python", "setup 1/2", "setup 2/2"}},
		{"env", func(i *Image) { i.Env["A"] = "2" }, []string{"before 1/1", "setup 1/2", "setup 2/2"}},
		{"pip's env", func(i *Image) { i.Env["PIP_PRE"] = "1" }, []string{"before 1/1", "pip", "python", "setup 1/2", "setup 2/2"}},
		{"last command", func(i *Image) { i.Setup[1] = "zwei" }, []string{"setup 2/2"}},
		{"first command", func(i *Image) { i.Setup[0] = "eins" }, []string{"setup 1/2", "setup 2/2"}},
	} {
		img := image()
		tt.change(&img)
		var changed []string
		for name, key := range keys(img) {
			if base[name] != key {
				changed = append(changed, name)
			}
		}
		slices.Sort(changed)
		if !slices.Equal(changed, tt.want) {
			t.Errorf("%s: keys of %q changed, want %q", tt.name, changed, tt.want)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, tt := range []struct {
		img  Image
		want string
	}{
		{Image{Apt: []string{"-oDPkg::Pre-Invoke::=id"}}, "option"},
		{Image{Apt: []string{"git-"}}, "removes"},
		{Image{Apt: []string{""}}, "not a package's name"},
		{Image{Apt: []string{"git; id"}}, "not a package's name"},
		{Image{Apt: []string{"git\n"}}, "not a package's name"},
		{Image{Apt: []string{"./evil.deb"}}, "not a package's name"},
		{Image{Python: "3.12; id"}, "no version of Python 3"},
		{Image{Python: "2.7"}, "no version of Python 3"},
		{Image{Pip: []string{" "}}, "empty"},
		{Image{Pip: []string{"-r requirements.txt"}}, "Image.Requirements"},
		{Image{Pip: []string{"a\nb"}}, "newline"},
		{Image{Pip: []string{"x @ git+https://hunter2@example.com/x"}}, "password"},
		{Image{Pip: []string{"git+ssh://git:hunter2@example.com/x"}}, "password"},
		{Image{PipIndexes: []string{"https://u:hunter2@example.com/simple"}}, "PIP_EXTRA_INDEX_URL in Spec.Secrets"},
		{Image{PipIndexes: []string{"https://hunter2@exa mple.com/%zz"}}, "password"},
		{Image{PipIndexes: []string{"https:u:hunter2@example.com"}}, "not the address"},
		{Image{PipIndexes: []string{"--index-url=https://example.com"}}, "not the address"},
		{Image{PipIndexes: []string{"ftp://example.com"}}, "not the address"},
		{Image{Env: map[string]string{"A=B": "hunter2"}}, "not a name"},
		{Image{Env: map[string]string{"A": "hunter2\x00"}}, "NUL"},
		{Image{Include: []string{"no/such/path"}}, "no/such/path"},
		{Image{Include: []string{""}}, "empty"},
		{Image{Setup: []string{"\t"}}, "empty"},
		{Image{Before: []string{"x", ""}}, "Before[1]: the command is empty"},
		{Image{Requirements: "no/such/requirements.txt"}, "no such file"},
		{Image{PhaseTimeout: -1}, "negative"},
	} {
		_, err := Plan(tt.img)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want an error with %q and no password", tt.img, err, tt.want)
		}
	}
	_, err := Plan(Image{Apt: []string{"-y"}, Python: "x", Setup: []string{""}})
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("three faults gave %q", lines)
	}
}

func TestPlanAccepts(t *testing.T) {
	if _, err := Plan(Image{
		Apt:    []string{"g++", "libstdc++6:arm64", "python3.12-venv", "foo=1:2.3~rc1-4", "curl~8.5", "perl-JSON", "a@edge", "x=1.2*"},
		Python: "3.12.4",
		Pip:    []string{"torch==2.4.0", "numpy>=1,<3", "a[b]; python_version>'3.8'", "x @ git+ssh://git@example.com/x", "https://e.com/x@1.whl"},
		PipIndexes: []string{"https://download.pytorch.org/whl/cu124", "http://10.0.0.1:3141/simple", "file:///srv/wheels",
			"https://e.com/~user@group/simple"},
		Env: map[string]string{"_A1": "x\ny"},
	}); err != nil {
		t.Error(err)
	}
}

func TestIncludeArrival(t *testing.T) {
	dir := t.TempDir()
	here := filepath.Join(dir, "here")
	for _, d := range []string{"here/src/deep", "other/data", "here/..odd"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(here)
	for _, tt := range []struct{ local, want string }{
		{"./src", "src"}, {"src/", "src"}, {"src/deep", "src/deep"}, {"src/../src", "src"}, {".", "."},
		{filepath.Join(here, "src", "deep"), "src/deep"}, {"../other/data", "data"}, {filepath.Join(dir, "other"), "other"},
		{"..", filepath.Base(dir)}, {"..odd", "..odd"},
	} {
		entries, err := Image{Include: []string{tt.local}}.entries()
		if err != nil || len(entries) != 1 || entries[0].Remote != tt.want {
			t.Errorf("%q: %+v, %v; want it to arrive as %s", tt.local, entries, err, tt.want)
		}
	}
	if _, err := Plan(Image{Include: []string{"src", "./src/"}}); err == nil || !strings.Contains(err.Error(), "both arrive as src") {
		t.Errorf("the same twice: %v", err)
	}
	if _, err := Plan(Image{Include: []string{"/"}}); err == nil {
		t.Error("the root of the disk was accepted")
	}
}

// No message has a password in it, and no accepted package name is an option.
func FuzzPlan(f *testing.F) {
	f.Add("git", "torch==2.4.0", "https://download.pytorch.org/whl/cu124", "3.12", "WHO", "make")
	f.Add("-y", "git+https://pw@example.com/x", "https://u:pw@example.com/simple", "3.12.", "A=B", "\x00")
	f.Add("g++=1.*", "a\nb", "https:u:pw@h", "", "", "")
	f.Fuzz(func(t *testing.T, apt, requirement, index, version, env, command string) {
		img := Image{Apt: []string{apt}, Pip: []string{requirement}, PipIndexes: []string{index}, Python: version,
			Env: map[string]string{env: "x"}, Setup: []string{command}}
		phases, err := Plan(img)
		if (err == nil) != (len(phases) > 0) {
			t.Fatalf("%d phases, error %v", len(phases), err)
		}
		if err == nil {
			for _, arg := range []string{apt, requirement, index, version, env} {
				if strings.HasPrefix(arg, "-") || strings.ContainsAny(arg, "\x00\n") {
					t.Fatalf("accepted %q", arg)
				}
			}
			if len(phases[0].Key) != 64 {
				t.Fatalf("key %q", phases[0].Key)
			}
		}
		const password = "hunter2isAsecret"
		for _, address := range []string{"https://" + password + "@" + index, "https://u:" + password + "@h/" + index, index + "://" + password + "@h"} {
			err := Image{Pip: []string{address}, PipIndexes: []string{address}}.validate()
			if err != nil && strings.Contains(err.Error(), password) {
				t.Fatalf("%v", err)
			}
		}
	})
}
