package hostile_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/hostile"
	"github.com/gputrain/gputrain/internal/transfer"
)

// patience limits every operation of a test: an operation that takes longer hangs.
const patience = 2 * time.Minute

// returns waits for an operation, and fails the test if it hangs.
func returns(t testing.TB, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("the operation hangs")
		return nil
	}
}

// checkSums compares the local files with what the library reported about them.
func checkSums(dir string, files []transfer.File) error {
	var wrong []error
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.Name] {
			wrong = append(wrong, fmt.Errorf("%q is named twice", f.Name))
		}
		seen[f.Name] = true
		wrong = append(wrong, checkSum(filepath.Join(dir, f.Name), f.Size, f.SHA256))
	}
	return errors.Join(wrong...)
}

func checkSum(name string, size int64, want string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is a %s", name, info.Mode().Type())
	case info.Size() != size:
		return fmt.Errorf("%s has %d bytes, but is reported with %d", name, info.Size(), size)
	}
	b, err := os.ReadFile(name)
	if sum := sha256.Sum256(b); err == nil && hex.EncodeToString(sum[:]) != want {
		err = fmt.Errorf("%s differs from the file that was checked", name)
	}
	return err
}

// safe checks the effects of an attack, and then uploads what it left: the home must be unchanged, and the upload must
// not send the secret to the node.
func (r *rig) safe(t testing.TB) {
	t.Helper()
	for _, wrong := range r.home.Changes() {
		t.Error(wrong)
	}
	r.node.Lie(hostile.Honest{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.remote(true).Upload(ctx, r.home.Taken, "again", transfer.Options{}) // this may fail
	if r.node.Leaked() {
		t.Error("the node has received the secret")
	}
}

// fileAttacks are archives for attacks on received files. Each is tried on a download of "file", on one of "folder"
// with "file" in it, and on a fetch.
var fileAttacks = []struct {
	name    string
	entries func(h *hostile.Home) []hostile.Entry
}{
	{"a link in place of the file", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Symlink("file", h.Decoy(4))}
	}},
	{"a link up in place of the file", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Symlink("file", "../../home")}
	}},
	{"a link, then the file through it", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Symlink("file", h.Decoy(0)), hostile.File("file", "attacker's key")}
	}},
	{"the file, then a link in its place", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.File("file", "good"), hostile.Symlink("file", h.Decoy(4))}
	}},
	{"a link to a folder, then a file in it", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Symlink("x", h.Dir), hostile.File("x/.bashrc", "run me"), hostile.File("file", "good")}
	}},
	{"a link to a folder, then a folder and a file in it", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Symlink("x", "../../home"), hostile.Folder("x"), hostile.Folder("x/new"), hostile.File("x/new/f", "run me")}
	}},
	{"a link through a link", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Folder("d"), hostile.Symlink("d/up", ".."), hostile.Symlink("y", "d/up/../../home"), hostile.File("y/.bashrc", "run me")}
	}},
	{"a hard link to a file of the user", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Hardlink("file", h.Decoy(1))}
	}},
	{"a hard link to a link", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Symlink("x", h.Decoy(1)), hostile.Hardlink("file", "x")}
	}},
	{"an absolute name", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.File(h.Decoy(0), "attacker's key")}
	}},
	{"a name that goes up", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.File("../../home/.ssh/authorized_keys", "attacker's key"), hostile.File("../../../home/.bashrc", "run me")}
	}},
	{"a folder that goes up", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "../../home", Kind: tar.TypeDir, Mode: 0o777}, {Name: "../../home/new", Kind: tar.TypeDir, Mode: 0o777}}
	}},
	{"names twice", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.File("file", "good"), hostile.File("file", "evil")}
	}},
	{"a device", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "file", Kind: tar.TypeBlock}, {Name: "x", Kind: tar.TypeChar}, {Name: "y", Kind: tar.TypeFifo}}
	}},
	{"a folder in place of the file", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.Folder("file"), hostile.File("file/x", "in it")}
	}},
	{"a sparse file", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "file", Body: "x", Pax: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "file", "GNU.sparse.realsize": "9000000000000"}}}
	}},
	{"control characters", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.File("\x1b[2J\x1b]0;owned\x07", "x"), hostile.File("a\nb", "x")}
	}},
	{"a size that lies", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "file", Size: 1 << 50, Body: "short"}}
	}},
	{"a size below zero", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "file", Size: -1, Body: "short"}}
	}},
	{"a path attribute that goes elsewhere", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "file", Body: "x", Pax: map[string]string{"path": h.Decoy(0)}}, {Name: "y", Kind: tar.TypeSymlink, Link: "z", Pax: map[string]string{"linkpath": h.Decoy(4)}}}
	}},
	{"bits that only root gives", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{{Name: "file", Mode: 0o6777, Body: "x"}}
	}},
	{"what was not asked for", func(h *hostile.Home) []hostile.Entry {
		return []hostile.Entry{hostile.File("file", "good"), hostile.File("other", "x")}
	}},
	{"nothing", func(*hostile.Home) []hostile.Entry { return nil }},
}

// TestHostileFiles downloads from a node whose answers do not match the requests.
func TestHostileFiles(t *testing.T) {
	for _, a := range fileAttacks {
		t.Run(a.name, func(t *testing.T) {
			t.Run("file", func(t *testing.T) { attackDownload(t, "file", a.entries) })
			t.Run("folder", func(t *testing.T) { attackDownload(t, "folder", a.entries) })
			t.Run("file for a folder", func(t *testing.T) { attackDownload(t, "file", a.entries, "folder") })
			t.Run("fetch", func(t *testing.T) { attackFetch(t, a.entries) })
		})
	}
}

func attackDownload(t *testing.T, kind string, entries func(*hostile.Home) []hostile.Entry, asked ...string) {
	home := hostile.NewHome(t)
	r := withShell(t, home)
	r.node.Lie(hostile.In(hostile.Download, hostile.Lie{Stdout: hostile.Archived(kind, entries(home)...)}))
	for range 2 { // what the first download leaves must not help the second
		err := returns(t, func() error {
			return download(t.Context(), r.remote(true), append(asked, kind)[0], home.Taken)
		})
		t.Log(err)
	}
	// The next download is into a folder that the node may have created.
	err := returns(t, func() error {
		return download(t.Context(), r.remote(true), kind, filepath.Join(home.Taken, "x"))
	})
	t.Log(err)
	wantModes(t, home.Taken)
	r.safe(t)
}

func attackFetch(t *testing.T, entries func(*hostile.Home) []hostile.Entry) {
	home := hostile.NewHome(t)
	r := withShell(t, home)
	write(t, filepath.Join(r.work, "file"), "good")
	sent := entries(home)
	r.node.Lie(hostile.In(hostile.Fetch, hostile.Lie{Stdout: hostile.Fetched([]string{"file"}, sent...)}))
	for range 2 {
		var files []transfer.File
		err := returns(t, func() (err error) {
			files, err = r.remote(true).Fetch(t.Context(), []string{"*"}, home.Taken, transfer.FetchOptions{})
			return err
		})
		t.Log(err)
		if err == nil {
			if len(files) != 1 {
				t.Errorf("%d files are reported as received", len(files))
			}
			if err := checkSums(home.Taken, files); err != nil {
				t.Error(err)
			}
		}
	}
	wantModes(t, home.Taken)
	r.safe(t)
}

// wantModes checks that a folder has no setuid or setgid files, devices or pipes.
func wantModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice|os.ModeNamedPipe) != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHostileListings uses a node that lists files that were not requested, or names that cannot exist.
func TestHostileListings(t *testing.T) {
	home := hostile.NewHome(t)
	lists := map[string][]string{
		"up":              {"../../home/secret", "../home/secret"},
		"absolute":        {"/etc/passwd"},
		"through itself":  {"a/../../../home/secret"},
		"twice":           {"file", "file", "./file"},
		"control":         {"\x1b[2J", "a\nb"},
		"nothing":         {"", ".", "/"},
		"of no length":    {strings.Repeat("x", 100_000)},
		"a name of a dir": {"file", "file/x"},
	}
	for name, names := range lists {
		t.Run(name, func(t *testing.T) {
			r := withShell(t, home)
			write(t, filepath.Join(r.work, "file"), "good")
			var entries []hostile.Entry
			for _, n := range names {
				entries = append(entries, hostile.File("./"+n, "evil"))
			}
			r.node.Lie(both{
				hostile.In(hostile.Find, hostile.Lie{Stdout: hostile.Listed(names...)}),
				hostile.In(hostile.Fetch, hostile.Lie{Stdout: hostile.Fetched(names, entries...)}),
			})
			var files []transfer.File
			err := returns(t, func() (err error) {
				files, err = r.remote(true).Fetch(t.Context(), []string{"**"}, home.Taken, transfer.FetchOptions{})
				return err
			})
			t.Log(err)
			if err == nil {
				if err := checkSums(home.Taken, files); err != nil {
					t.Error(err)
				}
			}
			r.safe(t)
			home.Empty()
		})
	}
}

// both uses the first of its two liars that lies in a session.
type both [2]hostile.Liar

func (both) Connect(*xssh.ServerConn) {}
func (both) Banner() string           { return "" }

func (b both) Session(kind hostile.Kind, command string) *hostile.Lie {
	if lie := b[0].Session(kind, command); lie != nil {
		return lie
	}
	return b[1].Session(kind, command)
}

// TestHostileSFTP uses a node without tar whose SFTP answers are false.
func TestHostileSFTP(t *testing.T) {
	names := func(files ...hostile.Attributed) func(h *hostile.Home) func(hostile.Packet) [][]byte {
		return func(h *hostile.Home) func(hostile.Packet) [][]byte {
			told := false
			return hostile.OfPacket(hostile.PacketName, func(p hostile.Packet) [][]byte {
				if told {
					return [][]byte{p.Bytes()}
				}
				told = true
				return [][]byte{p.Names(files...)}
			})
		}
	}
	attacks := map[string]func(h *hostile.Home) func(hostile.Packet) [][]byte{
		"a name that goes up":   names(hostile.Attributed{Name: "../../home/.bashrc", Mode: hostile.ModeFile, Size: 4}),
		"an absolute name":      names(hostile.Attributed{Name: "/etc/x", Mode: hostile.ModeFile, Size: 4}),
		"the folder above":      names(hostile.Attributed{Name: "..", Mode: hostile.ModeFolder}, hostile.Attributed{Name: "file", Mode: hostile.ModeFile, Size: 4}),
		"no name":               names(hostile.Attributed{Name: "", Mode: hostile.ModeFile, Size: 4}),
		"the folder itself":     names(hostile.Attributed{Name: ".", Mode: hostile.ModeFolder}),
		"devices":               names(hostile.Attributed{Name: "file", Mode: hostile.ModeDevice}, hostile.Attributed{Name: "pipe", Mode: hostile.ModePipe}),
		"a name twice":          names(hostile.Attributed{Name: "file", Mode: hostile.ModeFile, Size: 4}, hostile.Attributed{Name: "file", Mode: hostile.ModeFile, Size: 4}),
		"a folder in a file":    names(hostile.Attributed{Name: "file", Mode: hostile.ModeFolder}),
		"more than there is":    names(hostile.Attributed{Name: "file", Mode: hostile.ModeFile, Size: 1 << 60}),
		"a name with a control": names(hostile.Attributed{Name: "\x1b[2J", Mode: hostile.ModeFile, Size: 4}),
		"links that lead out": func(h *hostile.Home) func(hostile.Packet) [][]byte {
			told := 0
			return hostile.OfPacket(hostile.PacketName, func(p hostile.Packet) [][]byte {
				if told++; told == 1 {
					return [][]byte{p.Names(hostile.Attributed{Name: "file", Mode: hostile.ModeLink})}
				}
				return [][]byte{p.Names(hostile.Attributed{Name: h.Decoy(0), Mode: hostile.ModeFile})}
			})
		},
		"success in place of a file": func(h *hostile.Home) func(hostile.Packet) [][]byte {
			return hostile.OfPacket(hostile.PacketHandle, func(p hostile.Packet) [][]byte { return [][]byte{p.Status(0, "")} })
		},
		"success in place of attributes": func(h *hostile.Home) func(hostile.Packet) [][]byte {
			return hostile.OfPacket(hostile.PacketAttrs, func(p hostile.Packet) [][]byte { return [][]byte{p.Status(0, "")} })
		},
		"success in place of attributes of an open file": func(h *hostile.Home) func(hostile.Packet) [][]byte {
			first := true
			return hostile.OfPacket(hostile.PacketAttrs, func(p hostile.Packet) [][]byte {
				if first {
					first = false
					return [][]byte{p.Bytes()}
				}
				return [][]byte{p.Status(0, "")}
			})
		},
		"success in place of content": func(h *hostile.Home) func(hostile.Packet) [][]byte {
			return hostile.OfPacket(hostile.PacketData, func(p hostile.Packet) [][]byte { return [][]byte{p.Status(0, "")} })
		},
		"more content than was announced": func(h *hostile.Home) func(hostile.Packet) [][]byte {
			return hostile.OfPacket(hostile.PacketData, func(p hostile.Packet) [][]byte { return [][]byte{p.Content(make([]byte, 200_000))} })
		},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			home := hostile.NewHome(t)
			r := withShell(t, home)
			write(t, filepath.Join(r.work, "folder", "file"), "good")
			for _, what := range []string{"folder", "folder/file"} {
				r.node.Lie(hostile.InSessions{
					Of:  func(k hostile.Kind) bool { return k == hostile.SFTP },
					Lie: func() *hostile.Lie { return &hostile.Lie{Stdout: hostile.Packets(attack(home))} },
				})
				for range 2 {
					err := returns(t, func() error {
						return download(t.Context(), r.remote(false), what, home.Taken)
					})
					t.Log(err)
				}
			}
			var files []transfer.File
			err := returns(t, func() (err error) {
				files, err = r.remote(false).Fetch(t.Context(), []string{"folder/*"}, home.Taken, transfer.FetchOptions{})
				return err
			})
			if err == nil {
				if err := checkSums(home.Taken, files); err != nil {
					t.Error(err)
				}
			}
			wantModes(t, home.Taken)
			r.safe(t)
		})
	}
}

// TestHostileReceiver uploads to a node that lies about what it receives. The upload must return soon, with a short
// error at most, and must not send the secret.
func TestHostileReceiver(t *testing.T) {
	lies := map[string]hostile.Lie{
		"it ends at once":      {Stdout: hostile.Cut, Stderr: hostile.Cut, Exit: func(s *hostile.Session, _ string, _ []byte) { s.Status(1) }},
		"it says it failed":    {Exit: func(s *hostile.Session, _ string, _ []byte) { s.Status(13) }},
		"it floods":            {Stdout: hostile.Flood([]byte("ready\n"), 64<<20), Stderr: hostile.Flood([]byte("no\n"), 64<<20)},
		"it has nothing":       {Reply: func(string) hostile.Answer { return hostile.No }},
		"it complains":         {Stderr: hostile.Say([]byte("\x1b[2J" + strings.Repeat("x", 1<<20))), Exit: func(s *hostile.Session, _ string, _ []byte) { s.Status(1) }},
		"it reports no status": {Exit: func(*hostile.Session, string, []byte) {}},
		"it reports nonsense":  {Exit: func(s *hostile.Session, k string, _ []byte) { s.Request(k, false, []byte{1}) }},
		"it goes":              {Beside: func(s *hostile.Session) { s.Shut() }},
		"it answers too much":  {Stdout: hostile.Say([]byte(strings.Repeat("here\nplace\nping\n", 1000)))},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			home := hostile.NewHome(t)
			r := withShell(t, home)
			up := t.TempDir()
			write(t, filepath.Join(up, "a"), "some text")
			write(t, filepath.Join(up, "big"), strings.Repeat("x", 9<<20))
			r.node.Lie(hostile.InSessions{
				Of:  func(k hostile.Kind) bool { return k == hostile.Upload || k == hostile.Other },
				Lie: func() *hostile.Lie { return &lie },
			})
			for _, from := range []string{filepath.Join(up, "a"), filepath.Join(up, "big"), up} {
				err := returns(t, func() error { return r.remote(true).Upload(t.Context(), from, "there", transfer.Options{}) })
				t.Log(err)
				if err != nil && len(err.Error()) > 16<<10 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			}
			r.safe(t)
		})
	}
}

// TestSilentFiles uses a node that becomes silent during an operation. When the context ends, the operation returns.
func TestSilentFiles(t *testing.T) {
	home := hostile.NewHome(t)
	r := withShell(t, home)
	write(t, filepath.Join(r.work, "file"), strings.Repeat("good", 100_000))
	up := t.TempDir()
	write(t, filepath.Join(up, "a"), "some text")
	ops := map[string]func(ctx context.Context) error{
		"download": func(ctx context.Context) error {
			return download(ctx, r.remote(true), "file", home.Taken)
		},
		"sftp": func(ctx context.Context) error {
			return download(ctx, r.remote(false), "file", home.Taken)
		},
		"fetch": func(ctx context.Context) error {
			_, err := r.remote(true).Fetch(ctx, []string{"*"}, home.Taken, transfer.FetchOptions{})
			return err
		},
		"upload": func(ctx context.Context) error { return r.remote(true).Upload(ctx, up, "up", transfer.Options{}) },
	}
	for name, op := range ops {
		for _, after := range []int64{0, 1, 600} {
			t.Run(fmt.Sprint(name, after), func(t *testing.T) {
				silent := make(chan struct{}, 100)
				lie := hostile.Lie{Stdout: hostile.After(after, func(s *hostile.Session, dst io.Writer, src io.Reader) {
					silent <- struct{}{}
					hostile.Silence(s, dst, src)
				}), Exit: func(*hostile.Session, string, []byte) {}}
				r.node.Lie(hostile.InSessions{Of: func(hostile.Kind) bool { return true }, Lie: func() *hostile.Lie { return &lie }})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					select {
					case <-silent:
						cancel()
					case <-ctx.Done():
					}
				}()
				err := returns(t, func() error { return op(ctx) })
				if err == nil && after == 0 && name != "upload" {
					t.Error("the operation succeeded with a silent node")
				}
			})
		}
	}
	r.safe(t)
}
