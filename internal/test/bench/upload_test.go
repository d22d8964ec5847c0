package bench

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// A shelf gives every upload its own path on a node, and removes the files afterwards, untimed, as
// uploading over an existing copy is different work.
type shelf struct {
	dir  string
	used int
}

func (s *shelf) next() (place string, clear func()) {
	s.used++
	place = filepath.Join(s.dir, fmt.Sprint(s.used))
	return place, func() { os.RemoveAll(place) }
}

// upload measures the upload of one large file, which differs each time.
func upload(t *testing.T, l *lab) {
	const oneWay = 10 * time.Millisecond
	near := l.machines[0]
	file := filepath.Join(t.TempDir(), "file")
	there := shelf{dir: t.TempDir()}
	// mib measures the rate of sending n bytes to a new path.
	mib := func(n int, send func(place string) error) ([]float64, error) {
		place, clear := there.next()
		defer clear()
		got, err := rate(float64(n)/(1<<20), func() error { return send(place) })
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(place); err != nil || info.Size() != int64(n) {
			return nil, fmt.Errorf("%s is missing or incomplete: %w", place, errWrong)
		}
		return got, nil
	}
	for _, m := range []*machine{near, near.far(t, l, oneWay)} {
		pool, raw, client := l.pool(t, gputrain.Spec{}, m), l.raw(t, m), l.openssh(t, m)
		w := work{
			name: fmt.Sprintf("upload of %d MiB", l.size.file>>20), unit: mibPerSecond, turns: l.size.heavyTurns, n: l.size.file,
			fresh: func(n int) error { return random(file, n) },
			by: []contender{
				{"gputrain", 0, func(n int) ([]float64, error) {
					return mib(n, func(place string) error { return pool.Upload(file, place) })
				}},
				{"raw x/crypto/ssh, exec cat", 0.85, func(n int) ([]float64, error) {
					return mib(n, func(place string) error { return cat(raw, file, place) })
				}},
				{"scp", 1.2, func(n int) ([]float64, error) {
					return mib(n, func(place string) error {
						return run(l.ctx, nil, "", "scp", "-q", "-F", client.warm, file, m.name+":"+place)
					})
				}},
			},
		}
		if l.has("rsync", "rsync") {
			w.by = append(w.by, contender{"rsync", 0, func(n int) ([]float64, error) {
				return mib(n, func(place string) error {
					return run(l.ctx, nil, "", "rsync", "-e", "ssh -F "+client.warm, file, m.name+":"+place)
				})
			}})
		}
		if m != near {
			w.name += " at 20 ms round trip"
			w.by[1].limit, w.by[2].limit = 0, 2.5
		}
		l.measure(t, w)
	}
}

// files measures the upload of a folder with many small files, first all new and then unchanged.
func files(t *testing.T, l *lab) {
	m := l.machines[0]
	pool, raw, client := l.pool(t, gputrain.Spec{}, m), l.raw(t, m), l.openssh(t, m)
	tree := t.TempDir()
	there := shelf{dir: t.TempDir()}
	rsync := func(place string) error {
		return run(l.ctx, nil, "", "rsync", "-a", "-e", "ssh -F "+client.warm, tree+"/", m.name+":"+place+"/")
	}
	// all measures the time to send n files to a new path.
	all := func(n int, send func(place string) error) ([]float64, error) {
		place, clear := there.next()
		defer clear()
		got, err := each(1, func() error { return send(place) })
		if err != nil {
			return nil, err
		}
		if found, err := os.ReadDir(place); err != nil || len(found) != n {
			return nil, fmt.Errorf("%s has %d files: %w", place, len(found), errWrong)
		}
		return got, nil
	}
	w := work{
		name: fmt.Sprintf("upload of %d files of 4 KiB", l.size.files), unit: seconds, turns: l.size.turns, n: l.size.files,
		fresh: func(n int) error { return grow(tree, n) },
		by: []contender{
			{"gputrain", 0, func(n int) ([]float64, error) {
				return all(n, func(place string) error { return pool.Upload(tree, place) })
			}},
			{"raw x/crypto/ssh, tar through exec", 1.5, func(n int) ([]float64, error) {
				return all(n, func(place string) error { return untar(raw, tree, place) })
			}},
			{"scp -r", 0, func(n int) ([]float64, error) {
				return all(n, func(place string) error {
					return run(l.ctx, nil, "", "scp", "-qr", "-F", client.warm, tree, m.name+":"+place)
				})
			}},
		},
	}
	again := work{
		name: "the same again, unchanged", unit: seconds, turns: l.size.turns, n: l.size.files,
		by: []contender{{"gputrain", 0, func(int) ([]float64, error) {
			return each(1, func() error { return pool.Upload(tree, filepath.Join(there.dir, "gputrain")) })
		}}},
	}
	if l.has("rsync", "rsync") {
		w.by = append(w.by, contender{"rsync", 0, func(n int) ([]float64, error) { return all(n, rsync) }})
		again.by = append(again.by, contender{"rsync", 1, func(int) ([]float64, error) {
			return each(1, func() error { return rsync(filepath.Join(there.dir, "rsync")) })
		}})
	}
	l.measure(t, w)
	l.measure(t, again)
}

// random writes a file of n random bytes.
func random(file string, n int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.NewChaCha8(seed()), int64(n)); err != nil {
		return err
	}
	return f.Close()
}

func seed() (s [32]byte) {
	for i := range s {
		s[i] = byte(rand.Uint32())
	}
	return s
}

// grow fills a folder with n new files, with an old modification time, as files changed in the last
// two seconds are never considered unchanged.
func grow(dir string, n int) error {
	old, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	then := time.Now().Add(-time.Hour)
	for i := range n {
		name := filepath.Join(dir, fmt.Sprint("f", i))
		if err := random(name, 4<<10); err != nil {
			return err
		}
		if err := os.Chtimes(name, then, then); err != nil {
			return err
		}
	}
	return nil
}

func cat(c *xssh.Client, file, place string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return session(c, "cat > "+place, f, nil)
}

// untar sends a folder as a tar stream that is created meanwhile.
func untar(c *xssh.Client, tree, place string) error {
	r, w := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(w, 32<<10)
		archive := tar.NewWriter(buffered)
		err := archive.AddFS(os.DirFS(tree))
		if err == nil {
			err = archive.Close()
		}
		if err == nil {
			err = buffered.Flush()
		}
		w.CloseWithError(err)
	}()
	err := session(c, "mkdir -p "+place+" && tar -x -C "+place, r, nil)
	r.CloseWithError(io.ErrClosedPipe) // also ends the writer if the session ended first
	return err
}
