//go:build unix

package transfer

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"testing"
)

// nodeModes are modes of a node's file: every permission, all other bits, and none.
var nodeModes = []fs.FileMode{
	0o777, 0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid, 0o777 | fs.ModeSticky, 0, 0o400, 0o666, 0o2, 0o640,
}

// underUmasks runs a test under umasks of every kind. The umask is one of the whole process, so nothing runs beside it.
func underUmasks(t *testing.T, test func(t *testing.T, umask fs.FileMode)) {
	for _, umask := range []int{0o077, 0o027, 0o022, 0o002, 0} {
		t.Run(fmt.Sprintf("%03o", umask), func(t *testing.T) {
			old := syscall.Umask(umask)
			defer syscall.Umask(old)
			test(t, fs.FileMode(umask))
		})
	}
}

// wantMode compares the whole mode of something here with what a node's permissions are under an umask.
func wantMode(t *testing.T, at string, node, umask fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(at)
	must(t, err)
	want := node&0o777&^umask&^0o002 | 0o600
	if info.IsDir() {
		want |= fs.ModeDir | 0o700
	}
	if info.Mode() != want {
		t.Errorf("%s has mode %v, want %v: on the node it is %v, and the umask is %03o", at, info.Mode(), want, node, umask)
	}
}

// Whatever way a file or a folder comes, also in place of another one, the umask holds.
func TestUmaskHolds(t *testing.T) {
	come := map[string]func(t *testing.T, r *Remote, to string) (folder string){
		"download": func(t *testing.T, r *Remote, to string) string {
			must(t, r.Download(t.Context(), "d", to, DownloadOptions{}))
			return filepath.Join(to, "d")
		},
		"download below": func(t *testing.T, r *Remote, to string) string {
			must(t, r.Download(t.Context(), "d", to, DownloadOptions{Below: "in"}))
			return filepath.Join(to, "in/d")
		},
		"file": func(t *testing.T, r *Remote, to string) string {
			for i := range nodeModes {
				must(t, r.Download(t.Context(), path.Join("d", modeName(i), "f"), filepath.Join(to, modeName(i)), DownloadOptions{}))
			}
			return to
		},
		"fetch": func(t *testing.T, r *Remote, to string) string {
			_, err := r.Fetch(t.Context(), []string{"d/**"}, to, FetchOptions{})
			must(t, err)
			return filepath.Join(to, "d")
		},
		"bring": func(t *testing.T, r *Remote, to string) string {
			must(t, r.Bring(t.Context(), []string{"d/**"}, NewCopies(to), FetchOptions{}))
			return filepath.Join(to, "d")
		},
		"checkpoint": func(t *testing.T, r *Remote, to string) string {
			m := Mirror{Remote: r}
			all, err := m.Contents(t.Context(), r.Dir, "d", Limits{})
			must(t, err)
			var files []Content
			for _, c := range all {
				if c.Mode.IsRegular() {
					files = append(files, c)
				}
			}
			_, err = m.FetchFiles(t.Context(), files, to, FetchOptions{Dir: r.Dir})
			must(t, err)
			return filepath.Join(to, "d")
		},
	}
	describes := map[string]bool{"download": true, "download below": true} // the modes of folders come too
	underUmasks(t, func(t *testing.T, umask fs.FileMode) {
		waysInProcess(t, func(t *testing.T, r *Remote) {
			for i, mode := range nodeModes {
				f := filepath.Join(r.Dir, "d", modeName(i), "f")
				write(t, f, "evil")
				must(t, os.Chmod(f, mode))
				if mode.Perm()&0o400 == 0 && os.Getuid() != 0 {
					must(t, os.Chmod(f, mode|0o400)) // the node's own programs could not read it
				}
				must(t, os.Chmod(filepath.Dir(f), mode|0o500))
			}
			must(t, os.Chmod(filepath.Join(r.Dir, "d"), 0o700))
			for name, bring := range come {
				t.Run(name, func(t *testing.T) {
					to := filepath.Join(t.TempDir(), "to")
					for again := range 3 {
						folder := bring(t, r, to)
						for i, mode := range nodeModes {
							at := filepath.Join(folder, modeName(i))
							wantMode(t, filepath.Join(at, "f"), mode, umask)
							if describes[name] {
								wantMode(t, at, mode|0o500, umask)
							} else {
								wantMode(t, at, 0o777, umask)
							}
							must(t, os.Chmod(filepath.Join(at, "f"), 0o777)) // replaced next
							if again == 1 {
								must(t, os.Remove(filepath.Join(at, "f")))
							}
						}
						if describes[name] {
							wantMode(t, folder, 0o700, umask)
						}
						wantMode(t, to, 0o777, umask)
					}
				})
			}
		})
	})
}

func modeName(i int) string { return fmt.Sprintf("m%d", i) }

// What an archive, or a list over SFTP, says is no more than what a file can have: no bits of other kinds, in any number.
func TestDownloadedModes(t *testing.T) {
	underUmasks(t, func(t *testing.T, umask fs.FileMode) {
		dir := t.TempDir()
		l, err := openLanding(dir, Limits{}, nil)
		must(t, err)
		defer l.close()
		must(t, l.unpackTree(bytes.NewReader(packed(t, tarDir("d"), tarFile("f"), &tar.Header{Typeflag: tar.TypeReg, Name: "closed", Mode: 0o4000},
			tarFile("deep/f"), tarDir("open"), tarHard("second", "f"))), RefuseOutside))
		for name, mode := range map[string]fs.FileMode{"d": 0o755, "f": 0o777, "closed": 0, "deep": 0o777, "deep/f": 0o777, "second": 0o777} {
			wantMode(t, filepath.Join(dir, name), mode, umask)
		}
		s := &liar{content: "evil", opened: liarFile{size: 4}, lists: map[string][]liarFile{
			"/x":   {{name: "f", mode: 0o777 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky, size: 4}, {name: "d", mode: fs.ModeDir | 0o777 | fs.ModeSetgid | fs.ModeSticky}},
			"/x/d": {{name: "closed", mode: fs.ModeSetuid, size: 4}},
		}}
		to, err := openLanding(t.TempDir(), Limits{}, nil)
		must(t, err)
		defer to.close()
		must(t, to.getTree(t.Context(), s.serve(t), "/x", "", RefuseOutside))
		for name, mode := range map[string]fs.FileMode{"f": 0o777, "d": 0o777, "d/closed": 0} {
			wantMode(t, filepath.Join(to.name, name), mode, umask)
		}
	})
}

func TestMaskIn(t *testing.T) {
	underUmasks(t, func(t *testing.T, umask fs.FileMode) {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		m, err := MaskIn(root)
		if err != nil || fs.FileMode(m) != 0o777&^umask {
			t.Errorf("%o, %v", m, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
}
