package uv

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/private"
)

const (
	// A download is tried tries times in all, as long as something arrives.
	tries = 3
	// maxArchive and maxProgram bound what is read of a server; a build has a sixth of that.
	maxArchive, maxProgram = 256 << 20, 512 << 20
	// headerTimeout bounds the wait for a server's answer, and stallTimeout that for more of it.
	headerTimeout, stallTimeout = 30 * time.Second, time.Minute
	// A build in the cache is removed if it has not been used for unusedAfter.
	unusedAfter = 60 * 24 * time.Hour

	scratchPrefix = "fetching-"
)

// fetching lets one goroutine of this program fetch at a time: the nodes of a pool need the same build, and the second
// finds it kept.
var fetching = make(chan struct{}, 1)

// Fetch returns the path of a build's program on this computer, and downloads it unless an earlier call, perhaps of
// another program of this user, has. The archive must have the pinned checksum. The file is named by the program's own
// checksum, which is compared with its content every time.
func (r *Release) Fetch(ctx context.Context, b Build) (path string, err error) {
	select {
	case fetching <- struct{}{}:
		defer func() { <-fetching }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	dir, err := r.dir()
	if err != nil {
		return "", err
	}
	prefix := r.Version + "-" + b.Target + "-" + b.SHA256[:16] + "-"
	if path, ok := kept(dir, prefix); ok {
		return path, nil
	}
	prune(dir)
	scratch, err := os.MkdirTemp(dir, scratchPrefix)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	archive := filepath.Join(scratch, "archive")
	if err := r.download(ctx, b, archive); err != nil {
		return "", err
	}
	program := filepath.Join(scratch, "uv")
	digest, err := unpack(archive, b.Target+"/uv", program)
	if err != nil {
		return "", fmt.Errorf("the archive of uv %s for %s: %w", r.Version, b.Target, err)
	}
	path = filepath.Join(dir, prefix+digest)
	if err := os.Rename(program, path); err != nil && !hasDigest(path, digest) { // Windows does not replace a file that is read
		return "", err
	}
	return path, nil
}

// dir returns the folder of kept builds, which no other user can write to.
func (r *Release) dir() (string, error) {
	dir := r.Dir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("there is no folder to keep uv in: %w", err)
		}
		dir = filepath.Join(cache, "gputrain", "uv")
	}
	err := private.CheckPath(dir)
	if err == nil {
		err = private.MakeDir(dir)
	}
	if err == nil {
		err = new(private.Sealed).Check(dir)
	}
	if err != nil {
		return "", fmt.Errorf("the folder to keep uv in: %w", err)
	}
	return dir, nil
}

// kept returns the path of a kept build, if it is unchanged. One that is not is removed.
func kept(dir, prefix string) (string, bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		digest, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if hasDigest(path, digest) {
			now := time.Now()
			_ = os.Chtimes(path, now, now)
			return path, true
		}
		_ = os.Remove(path)
	}
	return "", false
}

func hasDigest(path, digest string) bool {
	f, err := private.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == digest
}

// prune removes builds that have not been used for long, and what killed programs have left.
func prune(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		age := unusedAfter
		if strings.HasPrefix(e.Name(), scratchPrefix) {
			age = 24 * time.Hour
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > age {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// download fetches a build's archive into a file, and checks it. A download that was cut, or is not what the checksum
// pins, is repeated.
func (r *Release) download(ctx context.Context, b Build, to string) error {
	address := r.url(b)
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("uv %s: %s does not hold the address of a mirror", r.Version, mirror)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerTimeout
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for try := 1; ; try++ {
		arrived, err := get(ctx, client, address, to, b.SHA256)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !arrived || try == tries:
			// An error of net/http has the address, perhaps with a password.
			if failed, ok := errors.AsType[*url.Error](err); ok {
				err = failed.Err
			}
			return fmt.Errorf("uv %s from %s: %w", r.Version, u.Redacted(), err)
		}
	}
}

// get makes one attempt at a download, and reports whether anything of the file arrived.
func get(ctx context.Context, client *http.Client, address, to, want string) (arrived bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the server answers %s", resp.Status)
	}
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stall := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("nothing came for %v", stallTimeout)) })
	defer stall.Stop()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum, pulse{stall}), io.LimitReader(resp.Body, maxArchive+1))
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return n > 0, cmp.Or(context.Cause(ctx), err)
	case n > maxArchive:
		return false, fmt.Errorf("the file is larger than %d MiB, which no build of uv is", maxArchive>>20)
	case got != want:
		return n > 0, fmt.Errorf("the file has the SHA-256 %s, not %s, and is not used", got, want)
	}
	return true, nil
}

// A pulse puts off the end of a download that stalls.
type pulse struct{ *time.Timer }

func (p pulse) Write(b []byte) (int, error) {
	p.Reset(stallTimeout)
	return len(b), nil
}

// unpack writes one file of an archive, as a program, and returns its SHA-256.
func unpack(archive, name, to string) (digest string, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("it has no %s: %w", name, fs.ErrNotExist)
		}
		if err != nil {
			return "", err
		}
		if strings.TrimPrefix(h.Name, "./") == name && h.Typeflag == tar.TypeReg {
			return extract(io.LimitReader(t, maxProgram), to)
		}
	}
}

func extract(r io.Reader, to string) (digest string, err error) {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), r)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, f.Close())
}
