package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each kind of transfer reports how many bytes have moved, and of how many if that is known.
func TestProgress(t *testing.T) {
	waysInProcess(t, func(t *testing.T, r *Remote) {
		local := t.TempDir()
		big := strings.Repeat("0123456789abcdef", 64<<10)
		tree{"d/a": big, "d/sub/b": "four"}.make(t, local)
		var done, total, most int64
		progress := func(n, of int64) {
			if n < done {
				t.Errorf("%d after %d", n, done)
			}
			done, total, most = n, of, max(most, n)
		}
		both := int64(len(big) + 4)
		for _, tt := range []struct {
			name        string
			do          func() error
			done, total int64
		}{
			{"upload a folder", func() error {
				return r.Upload(t.Context(), filepath.Join(local, "d"), "up", Options{Progress: progress})
			}, both, both},
			{"upload a file", func() error {
				return r.Upload(t.Context(), filepath.Join(local, "d/a"), "a", Options{Progress: progress})
			}, both - 4, both - 4},
			{"sync", func() error {
				_, err := r.Sync(t.Context(), []Entry{{Local: filepath.Join(local, "d"), Remote: "sync"}}, progress)
				return err
			}, both, both},
			{"download a folder", func() error { return r.Download(t.Context(), "up", t.TempDir(), DownloadOptions{Progress: progress}) }, both, 0},
			{"download a file", func() error { return r.Download(t.Context(), "a", t.TempDir(), DownloadOptions{Progress: progress}) }, both - 4, both - 4},
			{"fetch", func() error {
				_, err := r.Fetch(t.Context(), []string{"up/**"}, t.TempDir(), FetchOptions{Progress: progress})
				return err
			}, both, 0},
			{"copies", func() error {
				return r.Bring(t.Context(), []string{"up/**"}, NewCopies(filepath.Join(t.TempDir(), "c")), FetchOptions{Progress: progress})
			}, both, both},
		} {
			done, total, most = 0, 0, 0
			if err := tt.do(); err != nil || done != tt.done || total != tt.total {
				t.Errorf("%s: %d of %d bytes, want %d of %d, %v", tt.name, done, total, tt.done, tt.total, err)
			}
		}
		done, most = 0, 0
		must(t, os.WriteFile(filepath.Join(local, "d/sub/b"), []byte("longer"), 0o644))
		must(t, r.Upload(t.Context(), filepath.Join(local, "d"), "up", Options{Progress: progress}))
		if most > 6+int64(len(big)) || done < 6 {
			t.Errorf("%d bytes were sent again", done)
		}
	})
}
