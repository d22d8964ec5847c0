package uv_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/test/uvtest"
	"github.com/gputrain/gputrain/internal/uv"
)

func TestPinned(t *testing.T) {
	r := uv.Pinned()
	seen := map[string]bool{}
	for _, platform := range [][2]string{
		{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "arm"}, {"linux", "386"}, {"linux", "riscv64"}, {"linux", "ppc64le"}, {"linux", "s390x"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
	} {
		b, ok := r.Build(platform[0], platform[1])
		sum, err := hex.DecodeString(b.SHA256)
		if !ok || err != nil || len(sum) != 32 || seen[b.SHA256] || seen[b.Target] {
			t.Errorf("%v: %+v, %v", platform, b, ok)
		}
		seen[b.SHA256], seen[b.Target] = true, true
		if want := "/astral-sh/uv/releases/download/" + r.Version + "/" + b.Target + ".tar.gz"; b.Path != want {
			t.Errorf("path %s, want %s", b.Path, want)
		}
	}
	if b, ok := r.Build("plan9", "amd64"); ok {
		t.Errorf("plan9 has %+v", b)
	}
}

func build(t *testing.T, r *uv.Release) uv.Build {
	t.Helper()
	b, ok := r.Build("linux", "amd64")
	if !ok {
		t.Fatal("no build")
	}
	return b
}

func TestFetch(t *testing.T) {
	s := uvtest.Serve(t, []byte("the program"))
	b := build(t, s.Release)
	var first string
	var all sync.WaitGroup
	paths := make([]string, 4)
	for i := range paths { // nodes of one pool
		all.Go(func() {
			path, err := s.Release.Fetch(t.Context(), b)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	all.Wait()
	first = paths[0]
	content, err := os.ReadFile(first)
	if err != nil || string(content) != "the program" {
		t.Fatalf("%q, %v", content, err)
	}
	if n := s.Requests(); n != 1 {
		t.Errorf("%d requests", n)
	}
	// A kept file that has changed is fetched again.
	if err := os.WriteFile(first, []byte("the proGram"), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := s.Release.Fetch(t.Context(), b)
	if content, _ := os.ReadFile(again); err != nil || string(content) != "the program" || s.Requests() != 1 {
		t.Errorf("%q, %v", content, err)
	}
	left, err := filepath.Glob(filepath.Join(s.Release.Dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// A mirror is named as for uv's own installer.
func TestFetchFromAMirror(t *testing.T) {
	s := uvtest.Serve(t, []byte("the program"))
	t.Setenv("UV_INSTALLER_GITHUB_BASE_URL", s.Release.Base)
	s.Release.Base = "http://127.0.0.1:1"
	if _, err := s.Release.Fetch(t.Context(), build(t, s.Release)); err != nil {
		t.Error(err)
	}
	t.Setenv("UV_INSTALLER_GITHUB_BASE_URL", "http://me:hunter2@127.0.0.1:1")
	s.Release.Dir = t.TempDir()
	_, err := s.Release.Fetch(t.Context(), build(t, s.Release))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestFetchAfterACut(t *testing.T) {
	s := uvtest.Serve(t, []byte(strings.Repeat("the program", 1000)))
	s.Answer = func(number int, w http.ResponseWriter, archive []byte) bool {
		if number == 3 {
			return false
		}
		uvtest.Cut(w, archive)
		return true
	}
	if _, err := s.Release.Fetch(t.Context(), build(t, s.Release)); err != nil || s.Requests() != 3 {
		t.Error(err)
	}
}

func TestFetchRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		answer   func(number int, w http.ResponseWriter, archive []byte) bool
		want     string
		requests int
	}{
		"another file": {func(_ int, w http.ResponseWriter, _ []byte) bool { w.Write([]byte("evil")); return true }, "has the SHA-256", 3},
		"half a file":  {func(_ int, w http.ResponseWriter, archive []byte) bool { w.Write(archive[:20]); return true }, "has the SHA-256", 3},
		"always cut":   {func(_ int, w http.ResponseWriter, archive []byte) bool { uvtest.Cut(w, archive); return true }, "EOF", 3},
		"no such file": {func(_ int, w http.ResponseWriter, _ []byte) bool { w.WriteHeader(404); return true }, "404", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := uvtest.Serve(t, []byte("the program"))
			s.Answer = tt.answer
			path, err := s.Release.Fetch(t.Context(), build(t, s.Release))
			if err == nil || path != "" || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "uv 9.9.9 from http://127.0.0.1") {
				t.Errorf("%q, %v", path, err)
			}
			if n := s.Requests(); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
			if left, _ := filepath.Glob(filepath.Join(s.Release.Dir, "*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	s := uvtest.Serve(t, []byte("the program"))
	why := errors.New("the pool ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Answer = func(_ int, w http.ResponseWriter, archive []byte) bool {
		w.Write(archive[:10])
		w.(http.Flusher).Flush()
		cancel(why)
		<-ctx.Done()
		return true
	}
	if _, err := s.Release.Fetch(ctx, build(t, s.Release)); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}
