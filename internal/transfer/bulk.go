package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// bulkSize is the largest file that goes whole through one session.
	bulkSize = 32 << 20
	// partSize is what a session of a larger file carries: large beside what
	// it costs to open one, small beside the file, so that the node can check
	// one part while it receives the next. It is a multiple of block.
	partSize = 32 << 20
	block    = 64 << 10
	// A channel carries at most its window in a round trip. Two hide the start
	// of each other's sessions; from farRTT on it takes more of them to fill the
	// link. With the session in charge that is five of the server's usual ten.
	nearStreams = 2
	farStreams  = 4
	farRTT      = 3 * time.Millisecond
)

// uploadBulk sends a large file in parts. One session is in charge: it makes
// the file, checks the parts that have arrived, puts the file in its place,
// and removes it when it hears no more.
func (r *Remote) uploadBulk(ctx context.Context, f *os.File, info fs.FileInfo, at string, m *meter) error {
	stage := path.Join(path.Dir(at), stageName())
	defer r.discard(ctx, stage)
	b := &bulk{r: r, f: f, info: info, at: at, stage: stage, meter: m}
	orders, send := io.Pipe()
	return r.stream(ctx, script(prepareFile+serveBulk, r.fileVars(at, stage, info, "")...), at,
		func(w io.Writer) error {
			defer orders.Close()
			_, err := io.Copy(flushing{w.(*bufio.Writer)}, orders)
			return err
		},
		func(answers io.Reader) error {
			// The session in charge gives the file up when its orders end.
			defer send.Close()
			return b.conduct(ctx, &dialogue{send, bufio.NewReader(answers)})
		})
}

// serveBulk answers one line for each: a file is made, a ping comes back, a
// part is summed.
const serveBulk = `: >"$s" || exit 1
echo ready
while read -r verb skip count; do
case $verb in
ping) echo pong;;
sum) dd if="$s" bs=65536 skip="$skip" count="$count" 2>/dev/null | eval "$hasher" | cut -c 1-64;;
place) ` + placeFile + `echo placed; exit 0;;
esac
done
exit 1
`

type bulk struct {
	r     *Remote
	f     *os.File
	info  fs.FileInfo
	at    string
	stage string
	meter *meter
}

// conduct sends all parts and has each of them checked.
func (b *bulk) conduct(ctx context.Context, d *dialogue) error {
	if err := d.expect("", "ready"); err != nil {
		return err
	}
	streams, err := d.streams()
	if err != nil {
		return err
	}
	sums := make(chan part, (b.info.Size()+partSize-1)/partSize)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(sums)
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(streams)
		for offset := int64(0); offset < b.info.Size() && ctx.Err() == nil; offset += partSize {
			g.Go(func() error { return b.send(ctx, offset, sums) })
		}
		return g.Wait()
	})
	g.Go(func() error {
		for p := range sums {
			if b.r.Tools.SHA256 == "" {
				continue
			}
			if err := d.expect(fmt.Sprintf("sum %d %d", p.offset/block, partSize/block), p.sum); err != nil {
				return fmt.Errorf("%s: what arrived on the node is not what was sent: %w", b.at, err)
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return d.expect("place", "placed")
}

// A part has arrived.
type part struct {
	offset int64
	sum    string
}

func (b *bulk) send(ctx context.Context, offset int64, sums chan<- part) error {
	h := sha256.New()
	section := io.NewSectionReader(b.f, offset, min(partSize, b.info.Size()-offset))
	command := script(receivePart, "s="+b.stage, fmt.Sprintf("seek=%d", offset/block))
	err := b.r.stream(ctx, command, b.at, func(w io.Writer) error {
		if b.r.Tools.SHA256 != "" {
			w = io.MultiWriter(w, h)
		}
		n, err := io.CopyBuffer(onlyWriter{b.meter.count(w)}, section, make([]byte, chunk))
		if err == nil && n < section.Size() {
			err = fmt.Errorf("%s became shorter while it was sent", b.f.Name())
		}
		return err
	}, nil)
	if err == nil {
		sums <- part{offset, hex.EncodeToString(h.Sum(nil))}
	}
	return err
}

// receivePart writes into the file only while the session in charge keeps it.
const receivePart = `[ -f "$s" ] || fail "the upload was given up"
exec dd of="$s" bs=65536 seek="$seek" conv=notrunc
`

// A dialogue is the talk with the session in charge, line by line.
type dialogue struct {
	orders  io.Writer
	answers *bufio.Reader
}

// expect sends an order, unless that is empty, and reads the answer.
func (d *dialogue) expect(order, want string) error {
	if order != "" {
		if _, err := io.WriteString(d.orders, order+"\n"); err != nil {
			return io.ErrUnexpectedEOF
		}
	}
	got, err := d.answers.ReadString('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if got = strings.TrimSpace(got); got != want {
		return fmt.Errorf("the node answers %q, not %q", got, want)
	}
	return nil
}

// streams decides on how many sessions to send by, from how far the node is.
func (d *dialogue) streams() (int, error) {
	for range 3 {
		start := time.Now()
		if err := d.expect("ping", "pong"); err != nil {
			return 0, err
		}
		if time.Since(start) < farRTT {
			return nearStreams, nil
		}
	}
	return farStreams, nil
}

// flushing makes each write of an order go out at once.
type flushing struct{ b *bufio.Writer }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.b.Write(p)
	if err == nil {
		err = f.b.Flush()
	}
	return n, err
}
