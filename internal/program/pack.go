package program

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// packed opens the data to send of a binary, and returns the shell command that writes it to the file "$t". The command
// fails if the end is missing: for a node, a cut connection looks like the end of its stdin.
func (s *Programs) packed(n Node, b binary) (in io.ReadCloser, unpack string, err error) {
	if n.Gzip && distant(n.Addr) {
		in, err = s.compressed(b)
		return in, `gzip -dc >"$t"`, err
	}
	f, err := b.open()
	if err != nil {
		return nil, "", err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, fmt.Sprintf(`cat >"$t" && [ "$(wc -c <"$t")" -eq %d ]`, size), nil
}

// distant reports whether an address is behind a network, where compressing saves time.
func distant(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback()) && host != "local"
}

// compressed returns a binary in gzip's format, compressed once for all nodes.
func (s *Programs) compressed(b binary) (io.ReadCloser, error) {
	s.mu.Lock()
	zipped := s.zipped[b.digest]
	if zipped == nil {
		zipped = sync.OnceValues(func() ([]byte, error) { return compress(b.open) })
		s.zipped[b.digest] = zipped
	}
	s.mu.Unlock()
	content, err := zipped()
	return io.NopCloser(bytes.NewReader(content)), err
}

func compress(open func() (io.ReadSeekCloser, error)) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(z, f); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
