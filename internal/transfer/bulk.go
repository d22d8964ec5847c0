package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// bulkSize is the largest file that is sent without a look at what is there,
	// and through one session wherever the node is.
	bulkSize = 8 << 20
	// bulkStreams is how many sessions carry a larger one from farRTT on: each
	// carries at most its window, 2 MiB, in a round trip. With the one in charge
	// they are five of a server's usual ten.
	bulkStreams = 4
	farRTT      = 3 * time.Millisecond
	// block is what the places of the parts are multiples of.
	block = 256 << 10
)

// uploadBulk sends a large file. The session that makes the file and puts it in
// its place takes all of it where the node is near: there more sessions cost a
// lot of processor time. For a node far away it only has charge of the file,
// which arrives in parts over several others. It is told to place it when every
// part's program has said that it wrote all it got, so that a part that was cut
// is never taken for whole; when it hears no more it removes the file.
func (r *Remote) uploadBulk(ctx context.Context, f *os.File, info fs.FileInfo, at string, m *meter) error {
	stage := path.Join(path.Dir(at), stageName())
	defer r.discard(ctx, stage)
	it := item{mode: info.Mode(), size: info.Size(), mtime: info.ModTime()}
	vars := append(fileVars(at, stage, info), "look="+it.look().String())
	lines := make(chan string, 1) // closed when no more come
	return r.stream(ctx, script(skipSame+prepareFile+takeOrders+placeFile, vars...), at,
		func(w io.Writer) error {
			d := dialogue{w.(*bufio.Writer), lines}
			if answer := d.ask(""); answer != "ready" {
				return nil // it is there already, or the exit status tells
			}
			if d.isNear() {
				d.ask("here")
				return sendWhole(m.count(w), f, info)
			}
			err := r.sendParts(ctx, f, info, at, stage, m)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed: this session knows why
			}
			if err == nil {
				d.ask("place")
			}
			return err
		},
		func(answers io.Reader) error {
			defer close(lines)
			for b := bufio.NewScanner(io.LimitReader(answers, spareBytes)); b.Scan(); {
				select {
				case lines <- b.Text():
				default: // nobody asked
				}
			}
			return nil
		})
}

const (
	skipSame = `[ "$(stat -c '` + statFormat + `' "$p" 2>/dev/null)" != "$look" ] || exit 0
`
	// takeOrders answers every order with a line. Without one it was cut.
	takeOrders = `: >"$s" || exit 1
echo ready
order=
while read -r order; do
	echo "$order"
	case $order in
	here) cat >"$s" || exit 1; break;;
	place) break;;
	esac
done
case $order in here | place) ;; *) fail "the upload was given up";; esac
[ -f "$s" ] || fail "the upload was given up: somebody removed $s"
`
	// receivePart writes into the file only while the session in charge keeps it. dd makes
	// a file that is not there, and what is removed as dd begins would be back, for ever:
	// where that can be had, it is given one that is open.
	receivePart = `[ -f "$s" ] || exit ` + missing + `
{
	[ ! -e /proc/self/fd/3 ] || s=/proc/self/fd/3
	exec dd of="$s" bs=262144 seek="$seek" conv=notrunc
} 3<"$s"
exit ` + missing + `
`
)

// A dialogue is the talk with the session in charge, line by line.
type dialogue struct {
	orders  *bufio.Writer
	answers <-chan string
}

// ask sends an order, unless that is empty, and returns the answer: an empty
// one when the session has ended.
func (d dialogue) ask(order string) string {
	if order != "" {
		d.orders.WriteString(order + "\n")
		d.orders.Flush()
	}
	return <-d.answers
}

// isNear reports whether one session, with its window, fills the way to the node.
func (d dialogue) isNear() bool {
	for range 3 {
		start := time.Now()
		if d.ask("ping") != "ping" || time.Since(start) < farRTT {
			return true
		}
	}
	return false
}

func (r *Remote) sendParts(ctx context.Context, f *os.File, info fs.FileInfo, at, stage string, m *meter) error {
	size := info.Size()
	share := shareOf(size)
	g, ctx := errgroup.WithContext(ctx)
	for from := int64(0); from < size; from += share {
		g.Go(func() error {
			command := script(receivePart, "s="+stage, fmt.Sprintf("seek=%d", from/block))
			return r.stream(ctx, command, at, func(w io.Writer) error {
				return sendRange(m.count(w), f, info, from, min(share, size-from))
			}, nil)
		})
	}
	return g.Wait()
}

// shareOf returns how much of a file one session carries: whole blocks.
func shareOf(size int64) int64 {
	blocks := (size + block - 1) / block
	return (blocks + bulkStreams - 1) / bulkStreams * block
}
