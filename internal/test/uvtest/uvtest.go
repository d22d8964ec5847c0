// Package uvtest serves a program in uv's place, over HTTP and as uv's releases are: for tests on machines that reach no
// release of the real one.
package uvtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/uv"
)

// Version is the version that the release claims.
const Version = "9.9.9"

// A Server serves one release. Its fields are set before it is used.
type Server struct {
	// Release is the release, pinned to what the server serves.
	Release *uv.Release
	// Answer takes the place of the server's answer to its number-th request, from 1, and reports whether it has. It may
	// be nil.
	Answer func(number int, w http.ResponseWriter, archive []byte) bool

	mu       sync.Mutex
	requests []string
}

// Targets are the platforms that the release has builds for.
var Targets = []string{"x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"}

// Serve serves a program, which is the same for each of Targets.
func Serve(t testing.TB, program []byte) *Server {
	t.Helper()
	s := &Server{Release: &uv.Release{Version: Version, Dir: t.TempDir(), Sums: map[string]string{}}}
	archives := map[string][]byte{}
	for _, target := range Targets {
		archive := pack(t, "uv-"+target, program)
		sum := sha256.Sum256(archive)
		s.Release.Sums[target] = hex.EncodeToString(sum[:])
		archives["/astral-sh/uv/releases/download/"+Version+"/uv-"+target+".tar.gz"] = archive
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.URL.Path)
		number := len(s.requests)
		s.mu.Unlock()
		archive, ok := archives[r.URL.Path]
		switch {
		case s.Answer != nil && s.Answer(number, w, archive):
		case !ok:
			http.NotFound(w, r)
		default:
			w.Write(archive)
		}
	}))
	t.Cleanup(server.Close)
	s.Release.Base = server.URL
	return s
}

// Requests returns how many requests came since the last call.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.requests)
	s.requests = nil
	return n
}

// Cut answers with half of an archive, as a connection that breaks does.
func Cut(w http.ResponseWriter, archive []byte) {
	w.Header().Set("Content-Length", "1000000")
	w.Write(archive[:len(archive)/2])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// pack returns an archive like those of uv's releases.
func pack(t testing.TB, folder string, program []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	add := func(h *tar.Header, content []byte) {
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}, nil)
	add(&tar.Header{Typeflag: tar.TypeReg, Name: folder + "/uvx", Mode: 0o755, Size: 3}, []byte("uvx"))
	add(&tar.Header{Typeflag: tar.TypeReg, Name: folder + "/uv", Mode: 0o755, Size: int64(len(program))}, program)
	for _, err := range []error{w.Close(), z.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
