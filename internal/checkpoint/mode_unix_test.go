//go:build unix

package checkpoint

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The umask holds for the files and folders of a checkpoint, also for those that an earlier program has brought under
// another one.
func TestUmaskHoldsForCheckpoints(t *testing.T) {
	modes := []fs.FileMode{0o777, 0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid, 0o777 | fs.ModeSticky, 0, 0o400, 0o666}
	for _, umask := range []int{0o077, 0o027, 0o022, 0} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%03o/%v", umask, again), func(t *testing.T) {
				old := syscall.Umask(umask)
				defer syscall.Umask(old)
				n, files := fakeNode(t, 0)
				cfg := Config{To: filepath.Join(t.TempDir(), "to")}
				k, _ := newKeeper(t, cfg)
				restore(t, k, "", n)
				written := tree{"last": "x"}
				for i := range modes {
					written[fmt.Sprintf("d%d/f", i)] = "x"
				}
				written.save(t, n, "step-1")
				chmod := func(f func(i int, dir, file string)) {
					for i := range modes {
						dir := filepath.Join(n.Dir, "step-1", fmt.Sprintf("d%d", i))
						f(i, dir, filepath.Join(dir, "f"))
					}
				}
				chmod(func(i int, dir, file string) {
					mode := modes[i]
					if os.Getuid() != 0 {
						mode |= 0o400
					}
					must(t, os.Chmod(file, mode))
					must(t, os.Chmod(dir, mode|0o500))
				})
				if again {
					syscall.Umask(0)
					ctx, cancel := context.WithCancel(t.Context())
					files.set(func(op string) error {
						if op == "fetch step-1/last" {
							cancel()
							return ctx.Err()
						}
						return nil
					})
					if err := k.Last(ctx, []Node{n}, true); err == nil {
						t.Fatal("no error")
					}
					files.set(nil)
					open := func(at string, d fs.DirEntry, err error) error { // as a file that came under that umask is
						if err == nil && strings.Contains(at, "/step-1") {
							err = os.Chmod(at, 0o777)
						}
						return err
					}
					must(t, filepath.WalkDir(cfg.To, open))
					syscall.Umask(umask)
					k, _ = newKeeper(t, cfg)
				}
				must(t, k.Last(t.Context(), []Node{n}, true))
				chmod(func(i int, dir, file string) {
					for at, owner := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, file: 0o600} {
						node, err := os.Lstat(at)
						must(t, err)
						below, err := filepath.Rel(n.Dir, at)
						must(t, err)
						here, err := os.Lstat(filepath.Join(cfg.To, below))
						must(t, err)
						if want := node.Mode().Perm()&^fs.FileMode(umask)&^0o002 | owner; here.Mode() != want {
							t.Errorf("%s has mode %v, want %v: on the node it is %v", below, here.Mode(), want, node.Mode())
						}
					}
				})
			})
		}
	}
}
