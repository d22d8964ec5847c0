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
	// bulkSize is the largest file that goes through one session with its sum
	// known before.
	bulkSize = 32 << 20
	// partSize is how much is checked at a time: the node checks one part while
	// it receives the next. It is a multiple of block.
	partSize = 32 << 20
	block    = 64 << 10
	// lag is how far behind what has been sent the node may be in writing it:
	// a channel's window, and buffers on the way.
	lag = 4 << 20
	// A channel carries at most its window in a round trip: from farRTT on it
	// takes more of them to fill the link. With the session in charge that is
	// five of the server's usual ten.
	farStreams = 4
	farRTT     = 3 * time.Millisecond
)

// uploadBulk sends a large file. One session is in charge: it makes the file,
// checks part after part of what arrives over other sessions, puts the file in
// its place, and removes it when it hears no more.
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
sum) echo "$(dd if="$s" bs=65536 skip="$skip" count="$count" 2>/dev/null | eval "$hasher" | cut -c 1-64)";;
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

// conduct sends the file and has all of it checked.
func (b *bulk) conduct(ctx context.Context, d *dialogue) error {
	if err := d.expect("", "ready"); err != nil {
		return err
	}
	streams, err := d.streams()
	if err != nil {
		return err
	}
	size := b.info.Size()
	parts := (size + partSize - 1) / partSize
	share := (parts + streams - 1) / streams * partSize
	arrived := make(chan part, parts)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(arrived)
		g, ctx := errgroup.WithContext(ctx)
		for offset := int64(0); offset < size; offset += share {
			g.Go(func() error { return b.send(ctx, offset, min(share, size-offset), arrived) })
		}
		return g.Wait()
	})
	g.Go(func() error { return b.check(d, arrived) })
	if err := g.Wait(); err != nil {
		return err
	}
	return d.expect("place", "placed")
}

// A part of the file has been sent.
type part struct {
	offset int64
	sum    string
}

// send sends a range of the file over one session, and tells of each part of
// it once that should be on the node's disk.
func (b *bulk) send(ctx context.Context, offset, size int64, arrived chan<- part) error {
	var sent []part // and not told of
	end := offset + size
	command := script(receiveRange, "s="+b.stage, fmt.Sprintf("seek=%d", offset/block))
	err := b.r.stream(ctx, command, b.at, func(w io.Writer) error {
		w = b.meter.count(w)
		buf := make([]byte, chunk)
		for from := offset; from < end; from += partSize {
			for len(sent) > 0 && sent[0].offset+partSize+lag <= from {
				arrived <- sent[0]
				sent = sent[1:]
			}
			p, err := b.sendPart(w, from, min(partSize, end-from), buf)
			if err != nil {
				return err
			}
			sent = append(sent, p)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	for _, p := range sent {
		arrived <- p
	}
	return nil
}

func (b *bulk) sendPart(w io.Writer, from, size int64, buf []byte) (part, error) {
	h := sha256.New()
	if b.r.Tools.SHA256 != "" {
		w = io.MultiWriter(w, h)
	}
	n, err := io.CopyBuffer(onlyWriter{w}, onlyReader{io.NewSectionReader(b.f, from, size)}, buf)
	if err == nil && n < size {
		err = fmt.Errorf("%s became shorter while it was sent", b.f.Name())
	}
	return part{from, hex.EncodeToString(h.Sum(nil))}, err
}

// onlyReader hides WriteTo, which would choose a small buffer.
type onlyReader struct{ io.Reader }

// check has the node sum each part. One that differs may not have been written
// yet: it has another chance when all has arrived.
func (b *bulk) check(d *dialogue, arrived <-chan part) error {
	if b.r.Tools.SHA256 == "" {
		return nil
	}
	sum := func(p part) error {
		return d.expect(fmt.Sprintf("sum %d %d", p.offset/block, partSize/block), p.sum)
	}
	var early []part
	for p := range arrived {
		if err := sum(p); isCut(err) {
			return err
		} else if err != nil {
			early = append(early, p)
		}
	}
	for _, p := range early {
		if err := sum(p); err != nil {
			return fmt.Errorf("%s: what arrived on the node is not what was sent: %w", b.at, err)
		}
	}
	return nil
}

// receiveRange writes into the file only while the session in charge keeps it.
const receiveRange = `[ -f "$s" ] || fail "the upload was given up"
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
func (d *dialogue) streams() (int64, error) {
	for range 3 {
		start := time.Now()
		if err := d.expect("ping", "pong"); err != nil {
			return 0, err
		}
		if time.Since(start) < farRTT {
			return 1, nil
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
