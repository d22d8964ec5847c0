package report

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/credential"
)

// limits bound a bundle.
type limits struct {
	bytes int64 // of the whole zip
	// reserve is the part of bytes that is kept for MISSING.txt, the zip's directory and what is in the compressor.
	reserve int64
	time    time.Duration // for everything
	// collect is the time for all nodes, and node for one.
	collect, node time.Duration
	// quiet is how long to wait for the recorder's next entry.
	quiet time.Duration
}

// bundleLimits are those of WriteBundle.
var bundleLimits = limits{bytes: 64 << 20, reserve: 2 << 20, time: time.Minute, collect: 40 * time.Second, node: 20 * time.Second, quiet: 5 * time.Second}

var (
	errFull = errors.New("the bundle is full")
	errLate = errors.New("the time for the bundle was over")
)

// mostMissing bounds the lines of MISSING.txt.
const mostMissing = 2000

// An archive is a zip within limits, whose files have no secrets.
type archive struct {
	ctx     context.Context // ends with errLate when the time is over
	out     *counter
	zip     *zip.Writer
	limits  limits
	known   *credential.Set
	now     time.Time
	missing []string
	left    int // lines that MISSING.txt has no room for
	names   []string
}

// A counter counts what is written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// miss notes that something is not in the bundle, and why.
func (a *archive) miss(what, why string) {
	if len(a.missing) >= mostMissing {
		a.left++
		return
	}
	a.missing = append(a.missing, cleanLine(what)+": "+cleanLine(why))
}

// file adds a file, which takes at most a quota of bytes in the zip. What does not fit, or comes too late, is missed. The error
// is one that ends the bundle.
func (a *archive) file(name string, quota int64, write func(io.Writer) error) error {
	return a.add(name, quota, false, write)
}

func (a *archive) add(name string, quota int64, last bool, write func(io.Writer) error) error {
	if !last {
		if why := a.over(0); why != nil {
			a.miss(name, why.Error())
			return a.fatal(why)
		}
	}
	entry, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: a.now})
	if err != nil {
		return err
	}
	a.names = append(a.names, name)
	bounded := &boundedFile{a: a, to: entry, most: a.out.n + quota, last: last}
	clean := credential.NewWriter(bounded, a.known)
	err = errors.Join(write(clean), clean.Close())
	if bounded.failed != nil {
		return bounded.failed
	}
	if bounded.refused != nil {
		a.miss(name, fmt.Sprintf("cut after %d bytes: %v", bounded.n, bounded.refused))
		return a.fatal(bounded.refused)
	}
	if err != nil {
		a.miss(name, err.Error())
	}
	return nil
}

// over returns why no more can be written, with so many bytes that may still be in the compressor.
func (a *archive) over(pending int64) error {
	if err := context.Cause(a.ctx); err != nil {
		return err
	}
	if a.out.n+pending > a.limits.bytes-a.limits.reserve {
		return errFull
	}
	return nil
}

// fatal returns an error that ends the bundle: not that it is full or late.
func (a *archive) fatal(why error) error {
	if errors.Is(why, errFull) || errors.Is(why, errLate) {
		return nil
	}
	return why
}

// A boundedFile is one file of an archive, until it is too long.
type boundedFile struct {
	a       *archive
	to      io.Writer
	most    int64 // the size of the zip at which it ends
	n       int64 // bytes before compression
	pending int64 // of them, at most so many are in the compressor
	seen    int64 // the size of the zip when it grew last
	last    bool  // it is written after all limits
	refused error // why it was cut
	failed  error // what is wrong with the zip's own file
}

func (f *boundedFile) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if f.refused != nil {
			return written, f.refused
		}
		if !f.last {
			if f.a.out.n != f.seen {
				f.seen, f.pending = f.a.out.n, 0
			}
			pending := min(f.pending, f.a.limits.reserve/4) // what is pressed well can be longer, and takes less
			f.refused = f.a.over(pending)
			if f.refused == nil && f.a.out.n+pending >= f.most {
				f.refused = fmt.Errorf("%w: this file has had its part", errFull)
			}
			if f.refused != nil {
				return written, f.refused
			}
		}
		n, err := f.to.Write(p[:min(len(p), 16<<10)])
		written, f.n, f.pending, p = written+n, f.n+int64(n), f.pending+int64(n), p[n:]
		if err != nil {
			f.failed = err
			return written, err
		}
	}
	return written, nil
}

// text adds a file with a text, and a line end.
func (a *archive) text(name, text string) error {
	return a.file(name, a.limits.bytes/8, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.TrimRight(text, "\n")+"\n")
		return err
	})
}

// close adds MISSING.txt, and ends the zip.
func (a *archive) close() error {
	text := "Nothing is missing.\n"
	if len(a.missing) > 0 {
		slices.Sort(a.missing)
		text = strings.Join(a.missing, "\n") + "\n"
		if a.left > 0 {
			text += fmt.Sprintf("and %d more\n", a.left)
		}
	}
	text = cut(text, int(a.limits.reserve/4))
	if err := a.add("MISSING.txt", 0, true, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}); err != nil {
		return err
	}
	return a.zip.Close()
}
