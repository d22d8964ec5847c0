package observe_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/observe"
)

// A recorder replaces only what a recorder has written, under the name that it is given and under that of the older file.
func TestRecorderReplacesOnlyRecorders(t *testing.T) {
	for name, text := range map[string]string{
		"thesis": "chapter one\n", "other JSON": `{"seq":1}` + "\n", "JSON lines": `{"seq":1,"what":{}}` + "\n", "a list": `[{"seq":1,"event":{}}]`, "blank": "\n",
	} {
		for _, suffix := range []string{"", ".old"} {
			t.Run(name+suffix, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "run.jsonl")
				if err := os.WriteFile(path+suffix, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				refused(t, path, path+suffix)
				if got, err := os.ReadFile(path + suffix); err != nil || string(got) != text {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
	for _, suffix := range []string{"", ".old"} {
		for name, make := range map[string]func(at, mine string) error{
			"a link to a recorder's": func(at, mine string) error { return os.Symlink(mine, at) },
			"a link to nothing":      func(at, _ string) error { return os.Symlink("nowhere", at) },
			"a device":               func(at, _ string) error { return os.Symlink(os.DevNull, at) },
			"a folder":               func(at, _ string) error { return os.Mkdir(at, 0o700) },
		} {
			t.Run(name+suffix, func(t *testing.T) {
				dir := t.TempDir()
				mine := filepath.Join(dir, "mine")
				if err := os.WriteFile(mine, []byte(`{"seq":1,"event":{"time":"`), 0o600); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, "run.jsonl")
				if err := make(path+suffix, mine); err != nil {
					t.Skip(err)
				}
				refused(t, path, path+suffix)
				if _, err := os.Lstat(path + suffix); err != nil {
					t.Error(err)
				}
			})
		}
	}
	socket := filepath.Join(t.TempDir(), "socket") // as any file that is not regular: a device of this computer would be lost if it were not refused
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	refused(t, socket, socket)
}

func refused(t *testing.T, path, why string) {
	t.Helper()
	r, err := observe.New(observe.Config{File: path})
	if err == nil {
		r.Close()
		t.Fatal("it is replaced")
	}
	for _, part := range []string{why + " is there", "move it elsewhere", "Config.File names another one"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// The files of earlier recorders make room, whatever the first entry was, and so does an empty one.
func TestRecorderAfterRecorder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl")
	for i, before := range []string{"", `{"seq":1,"event":{"seq":1`, `{"seq":9223372036854775807,"line":{"time"`} {
		if i > 0 {
			if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := observe.New(observe.Config{File: path})
		if err != nil || r.Close() != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path + ".old"); i > 0 && (err != nil || string(got) != before) {
			t.Errorf("%q, %v", got, err)
		}
	}
}
