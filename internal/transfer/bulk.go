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
	// A file of up to bulkSize is sent without comparing it first, and through one session however far the node is.
	bulkSize = 8 << 20
	// A larger file is carried by bulkStreams sessions if the round trip takes farRTT or more: each carries at most its
	// window, 2 MiB, per round trip. With the controlling session they are five of a server's usual ten.
	bulkStreams = 4
	farRTT      = 3 * time.Millisecond
	// Parts begin at multiples of block.
	block = 256 << 10
)

// uploadBulk sends a large file. The controlling session makes the file and puts it in its place. If the node is near
// it also carries all of the file: there more sessions cost a lot of processor time. If the node is far, the file
// arrives in parts over several other sessions. The controlling session is told to place the file once the program of
// every part has reported that it wrote all it got, so that an incomplete part never counts as complete. If its input
// ends, it removes the file.
func (r *Remote) uploadBulk(ctx context.Context, f *os.File, info fs.FileInfo, at string, m *meter) error {
	stage := path.Join(path.Dir(at), stageName())
	defer r.discard(ctx, stage)
	it := item{mode: info.Mode(), size: info.Size(), mtime: info.ModTime()}
	vars := append(fileVars(at, stage, info), "look="+it.look().String())
	lines := make(chan string, 1) // closed when no more lines come
	return r.stream(ctx, script(skipSame+prepareFile+takeOrders+placeFile, vars...), at,
		func(w io.Writer) error {
			d := dialogue{w.(*bufio.Writer), lines}
			if answer := d.ask(""); answer != "ready" {
				return nil // it is there already, or the exit status has the reason
			}
			if d.isNear() {
				d.ask("here")
				return sendWhole(m.count(w), f, info)
			}
			err := r.sendParts(ctx, f, info, at, stage, m)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed: the controlling session has the reason
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
				default: // does not block
				}
			}
			return nil
		})
}

const (
	skipSame = `[ "$(stat -c '` + statFormat + `' "$p" 2>/dev/null)" != "$look" ] || exit 0
`
	// takeOrders answers every order with a line. No answer means that the session was cut.
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
[ -f "$s" ] || fail "the upload was given up: $s was removed"
`
	// receivePart writes into the file only while the controlling session keeps it. dd creates a missing file, so a
	// file that is removed as dd begins would come back for good: if the shell can, it gives dd an open file instead.
	receivePart = `[ -f "$s" ] || exit ` + missing + `
{
	[ ! -e /proc/self/fd/3 ] || s=/proc/self/fd/3
	exec dd of="$s" bs=262144 seek="$seek" conv=notrunc
} 3<"$s"
exit ` + missing + `
`
)

// A dialogue exchanges lines with the controlling session.
type dialogue struct {
	orders  *bufio.Writer
	answers <-chan string
}

// ask sends an order, unless that is empty, and returns the answer, which is empty if the session has ended.
func (d dialogue) ask(order string) string {
	if order != "" {
		d.orders.WriteString(order + "\n")
		d.orders.Flush()
	}
	return <-d.answers
}

// isNear reports whether one session's window fills the connection to the node.
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

// shareOf returns how many bytes of a file one session carries, in whole blocks.
func shareOf(size int64) int64 {
	blocks := (size + block - 1) / block
	return (blocks + bulkStreams - 1) / bulkStreams * block
}
