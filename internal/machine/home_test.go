//go:build unix

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestHome(t *testing.T) {
	home := Home(filepath.Join(t.TempDir(), "home"))
	if home.Exists() {
		t.Error("a home exists that was not made")
	}
	if err := home.Write("mark", nil); err == nil || home.Exists() {
		t.Errorf("a home was made by writing to it: %v", err)
	}
	if err := home.Make(); err != nil {
		t.Fatal(err)
	}
	if err := home.Make(); !os.IsExist(err) {
		t.Errorf("a home was made twice: %v", err)
	}
	for _, text := range []string{"first", "second"} {
		if err := home.Write("mark", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := home.Read("mark"); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o700, "mark": 0o600} {
		if info, err := os.Lstat(filepath.Join(string(home), name)); err != nil || info.Mode() != mode {
			t.Errorf("%q: %v, %v; want %v", name, info, err, mode)
		}
	}
	if !home.Has("mark") || home.Has("other") {
		t.Error("Has is wrong")
	}
	for range 2 { // removing a home that is gone succeeds
		if err := home.Remove(); err != nil || home.Exists() {
			t.Errorf("removed: %v", err)
		}
	}
}

// Tasks can replace a file of the home by anything.
func TestReadRefuses(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("/dev/zero", path) },
		"long": func(path string) error { return os.WriteFile(path, make([]byte, MaxFile+1), 0o600) },
	} {
		home := Home(t.TempDir())
		if err := place(filepath.Join(string(home), "mark")); err != nil {
			t.Fatal(err)
		}
		if got, err := home.Read("mark"); err == nil {
			t.Errorf("%s: read %d bytes", name, len(got))
		}
	}
}

// Remove removes a link in a home, but not its target.
func TestRemoveFollowsNoLink(t *testing.T) {
	precious := t.TempDir()
	home := Home(filepath.Join(t.TempDir(), "home"))
	if err := home.Make(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(string(home), "link")); err != nil {
		t.Fatal(err)
	}
	if err := home.Remove(); err != nil || home.Exists() {
		t.Errorf("removed: %v", err)
	}
	if err := os.Symlink(precious, string(home)); err != nil {
		t.Fatal(err)
	}
	if err := home.Remove(); err != nil || home.Exists() || !Home(precious).Exists() {
		t.Errorf("removed a link: %v", err)
	}
}

// Root may remove anything, so this runs as another user.
func TestRemoveHomeThatForbidsIt(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	locked := filepath.Join(home, "a", "b")
	if err := os.MkdirAll(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(locked, "file"), nil, 0o400)
	os.Symlink("/", filepath.Join(locked, "link"))

	test := filepath.Join(t.TempDir(), "test")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(test, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(test)
	cmd.Env = append(os.Environ(), removeEnv+"="+home)
	if os.Getuid() == 0 {
		const another = 65534
		for _, path := range []string{filepath.Dir(home), filepath.Dir(test), filepath.Dir(filepath.Dir(test))} {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{filepath.Dir(home), home, filepath.Dir(locked), locked} {
			if err := os.Chown(path, another, another); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: another, Gid: another}}
	}
	os.Chmod(locked, 0)
	os.Chmod(filepath.Dir(locked), 0o500)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if Home(home).Exists() {
		t.Error("the home is still there")
	}
}
