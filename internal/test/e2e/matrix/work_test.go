//go:build linux

package matrix

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/disktest"
	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// A workKind is one kind of work. begin starts it in the combination's shape.
type workKind struct {
	name     string
	transfer bool                 // it copies files: no task and no worker runs
	function bool                 // it runs in the worker
	stream   bool                 // it is a function with a stream of values
	without  map[workShape]string // shapes that do not exist for it, and why
	begin    func(*work)
}

var workKinds = []*workKind{
	{name: "command", begin: beginCommands},
	{name: "function", function: true, begin: beginFunctions},
	{name: "upload", transfer: true, begin: beginUploads},
	{name: "download", transfer: true, begin: beginDownloads},
}

// A work is what one combination does. Some of its pieces are held: they wait, wherever they run, until release. Each
// run of a piece adds a line "piece attempt node" to a ledger that all nodes share.
type work struct {
	c      *combination
	t      testing.TB
	pool   *gputrain.Compute // with its own context
	cancel context.CancelFunc
	dir    string // a folder here; there is its path on the nodes
	there  string

	held     map[int]bool
	underway func() bool
	where    func() int // the rank of a node where held work runs
	release  func()
	wait     func() []outcome
	cleanUp  func()
	pieces   func() int
}

func newWork(c *combination) *work {
	name := strconv.FormatUint(c.rng.Uint64(), 36)
	w := &work{
		c: c, t: c.t, dir: filepath.Join(c.r.shared, name), there: "/shared/" + name,
		held: map[int]bool{}, cleanUp: func() {},
	}
	if err := os.Mkdir(w.dir, 0o777); err != nil {
		c.t.Fatal(err)
	}
	e2etest.Write(c.t, filepath.Join(w.dir, "ran"), nil)
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	w.pool, w.cancel = c.r.pool.WithContext(ctx), cancel
	return w
}

// A ran is a line of the ledger.
type ran struct{ piece, attempt, node int }

func (w *work) ledger() (runs []ran) {
	text, err := os.ReadFile(filepath.Join(w.dir, "ran"))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r ran
		if n, err := fmt.Sscanf(line, "%d %d %d\n", &r.piece, &r.attempt, &r.node); n != 3 || err != nil {
			w.t.Errorf("the ledger has the line %q: %v", line, err)
		}
		runs = append(runs, r)
	}
	return runs
}

// checkLedger compares the ledger with the results.
func (w *work) checkLedger(outcomes []outcome) {
	times := map[ran]int{}
	for _, r := range w.ledger() {
		r.node = 0
		times[r]++
	}
	for r, n := range times {
		if n > 1 {
			w.t.Errorf("attempt %d of piece %d ran %d times", r.attempt, r.piece, n)
		}
	}
	if w.c.kind.transfer {
		return
	}
	for _, o := range outcomes {
		if o.err == nil && times[ran{piece: o.piece, attempt: o.attempts}] != 1 {
			w.t.Errorf("attempt %d of piece %d succeeded and did not run", o.attempts, o.piece)
		}
		if o.attempts == 0 && errors.Is(o.err, context.Canceled) {
			continue // the caller gave up, and its result did not come within half a second: see WithContext
		}
		for attempt := o.attempts + 1; attempt < 10; attempt++ {
			if times[ran{piece: o.piece, attempt: attempt}] > 0 {
				w.t.Errorf("piece %d ran in attempt %d, and the result is of attempt %d", o.piece, attempt, o.attempts)
			}
		}
	}
}

// plan determines how many pieces there are, which of them are held, and which of those determines the target of the
// fault.
func (w *work) plan() (n int) {
	c := w.c
	n = 1
	switch c.shape {
	case shapeGather:
		n = gatherOf
	case shapeBroadcast:
		n = len(c.r.live())
	}
	w.pieces = func() int { return n }
	first, holds := 0, n
	if c.shape == shapeGather {
		first, holds = c.rng.IntN(n-3), 3
	}
	for i := range holds {
		w.held[first+i] = true
	}
	w.underway = func() bool {
		found := 0
		for _, r := range w.ledger() {
			if w.held[r.piece] {
				found++
			}
		}
		return found >= len(w.held)
	}
	pick := first + c.rng.IntN(holds)
	w.where = func() int {
		for _, r := range w.ledger() {
			if r.piece == pick {
				return r.node
			}
		}
		return -1
	}
	w.release = func() { os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o666) }
	return n
}

// tasks starts tasks in the combination's shape.
func (w *work) tasks(task func(piece string, held bool) gputrain.Task, check func(gputrain.Result, bool) error) {
	c := w.c
	n := w.plan()
	done := make(chan []gputrain.Result, 1)
	begin := func(do func() ([]gputrain.Result, error)) {
		go func() {
			results, err := do()
			if len(results) == 0 {
				w.t.Errorf("no results: %v", err)
			}
			for _, r := range results {
				if r.Err != nil && !errors.Is(err, r.Err) {
					w.t.Errorf("the error %v of task %d is not in that of all: %v", r.Err, r.Index, err)
				}
			}
			done <- results
		}()
	}
	switch c.shape {
	case shapeGather:
		var tasks []gputrain.Task
		for i := range n {
			t := task(strconv.Itoa(i), w.held[i])
			t.Retries = c.retries(i)
			tasks = append(tasks, t)
		}
		begin(func() ([]gputrain.Result, error) { return w.pool.Gather(tasks...) })
	case shapeBroadcast:
		begin(func() ([]gputrain.Result, error) { return w.pool.Broadcast(task("", true)) })
	default:
		job := w.pool.Start(task("0", true))
		begin(func() ([]gputrain.Result, error) {
			r, err := job.Wait()
			return []gputrain.Result{r}, err
		})
	}
	w.wait = func() (all []outcome) {
		for _, r := range <-done {
			o := outcome{piece: r.Index, node: r.Node.Rank, attempts: r.Attempts, err: r.Err}
			if r.Err == nil {
				o.wrong = check(r, w.held[r.Index])
			}
			all = append(all, o)
		}
		return all
	}
}

// retries returns how often a piece may be retried after its own failure.
func (c *combination) retries(piece int) int {
	if c.shape != shapeGather || c.kind.stream {
		return 0
	}
	return piece % 2
}

// beginCommands starts commands that print before and after they are held, have the pool's secret, and leave a
// file. A held one prints more than is sent along with its end.
func beginCommands(w *work) {
	w.tasks(func(piece string, held bool) gputrain.Task {
		t := gputrain.Script(`P=${P:-$GPUTRAIN_RANK}
			echo "$P $GPUTRAIN_ATTEMPT $GPUTRAIN_NODE_RANK" >>"$D/ran"
			[ "$MATRIX_SECRET" = "` + matrixSecret + `" ] || exit 9
			echo "$P" 2>/dev/null >"$GPUTRAIN_SCRATCH/made"
			echo "begin $P"
			if [ -n "$HELD" ]; then
				seq 1 10000
				until [ -e "$D/go" ]; do sleep 0.2; done
				[ -z "$HOG" ] || exec python3 -c 'x = b"x" * (1 << 30)'
				seq 10001 20000
			fi
			echo "wrong $P" >&2
			echo "end $P"`)
		t.Env = map[string]string{"D": w.there, "P": piece}
		t.Outputs = []string{gputrain.Optional("made")}
		if held {
			t.Env["HELD"] = "1"
			t.Env["HOG"] = w.hog(piece)
		}
		return t
	}, func(r gputrain.Result, held bool) error {
		var want bytes.Buffer
		fmt.Fprintf(&want, "begin %d\n", r.Index)
		if held {
			for i := range 20000 {
				fmt.Fprintln(&want, i+1)
			}
		}
		fmt.Fprintf(&want, "end %d\n", r.Index)
		if !bytes.Equal(r.Stdout, want.Bytes()) || string(r.Stderr) != fmt.Sprintf("wrong %d\n", r.Index) {
			return fmt.Errorf("it printed %d bytes of %d, and %q", len(r.Stdout), want.Len(), r.Stderr)
		}
		made, err := os.ReadFile(filepath.Join(r.OutputDir, "made"))
		if w.c.fault.fillsDisk && len(made) == 0 { // there was no room for it
			return nil
		}
		if err != nil || string(made) != fmt.Sprintln(r.Index) || len(r.Outputs) != 1 || r.Outputs[0].Attempt != r.Attempts {
			return fmt.Errorf("it left %q, %v, as %+v after %d attempts", made, err, r.Outputs, r.Attempts)
		}
		return nil
	})
}

// hog reports whether a held piece uses more memory than available: one piece of a gather, and all of other shapes.
func (w *work) hog(piece string) string {
	if !w.c.fault.hogs {
		return ""
	}
	if i, err := strconv.Atoi(piece); err == nil && w.held[i-1] {
		return ""
	}
	return "1"
}

// A chore is the argument of toil.
type chore struct {
	Dir   string
	Piece string // empty means the rank in the call
	Held  bool
	Hog   bool
	Disk  bool // if held, it writes a file
}

// matrixSecret is the pool's, as MATRIX_SECRET.
const matrixSecret = "e7c1-of-the-matrix"

var toil = gputrain.Func("toil", func(ctx context.Context, in chore) ([]byte, error) {
	if os.Getenv("MATRIX_SECRET") != matrixSecret {
		return nil, errors.New("the worker lacks the pool's secret")
	}
	n := gputrain.ThisNode(ctx)
	piece := n.Rank
	if in.Piece != "" {
		piece, _ = strconv.Atoi(in.Piece)
	}
	if err := appendLine(filepath.Join(in.Dir, "ran"), fmt.Sprintln(piece, n.Attempt, n.NodeRank)); err != nil {
		return nil, err
	}
	if !in.Held {
		return payload(piece, 100), nil
	}
	if err := in.hold(ctx); err != nil {
		return nil, err
	}
	return payload(piece, 300_000), nil
})

// hold waits until held work is released. If in says so, it then uses more memory than available, or space on the disk.
func (in chore) hold(ctx context.Context) error {
	for !e2etest.Exists(filepath.Join(in.Dir, "go")) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	if in.Hog {
		b := make([]byte, 1<<30)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		return fmt.Errorf("there is room for %d bytes", len(b))
	}
	if in.Disk {
		f, err := os.CreateTemp(gputrain.ThisNode(ctx).Scratch, "toil-")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(make([]byte, 1<<20))
		return errors.Join(err, f.Close())
	}
	return nil
}

// payload returns the result of piece i, of n bytes.
func payload(i, n int) []byte {
	b := make([]byte, n)
	for j := range b {
		b[j] = byte(i + j*j>>4)
	}
	return b
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func beginFunctions(w *work) {
	w.tasks(func(piece string, held bool) gputrain.Task {
		return toil.Call(chore{
			Dir: w.there, Piece: piece, Held: held, Hog: held && w.hog(piece) != "", Disk: w.c.fault.fillsDisk,
		})
	}, func(r gputrain.Result, held bool) error {
		got, err := toil.Value(r)
		size := 100
		if held {
			size = 300_000
		}
		if err != nil || !bytes.Equal(got, payload(r.Index, size)) {
			return fmt.Errorf("it returned %d bytes of %d: %v", len(got), size, err)
		}
		return nil
	})
}

// files creates the files to copy: one file, many, or a folder with a big file, named by the pieces.
func (w *work) files(dir string) (names []string, bytes int64) {
	random := func(name string, size int) {
		b := make([]byte, size)
		rand.Read(b)
		e2etest.WriteText(w.t, filepath.Join(dir, name), string(b))
		bytes += int64(size)
	}
	switch w.c.shape {
	case shapeGather:
		for i := range gatherOf {
			names = append(names, strconv.Itoa(i))
			random(strconv.Itoa(i), 16<<10)
		}
	case shapeBroadcast:
		for i := range 20 {
			random(fmt.Sprintf("0/%d/small", i), 1000*i)
		}
		random("0/big", 12<<20)
		names = []string{"0"}
	default:
		random("0", 12<<20)
		names = []string{"0"}
	}
	return names, bytes
}

// copies starts one copy for each piece, all at once, and stops the connections amid these bytes until release.
func (w *work) copies(names []string, size int64, do, whole func(name string) error) {
	r := w.c.r
	w.pieces = func() int { return len(names) }
	r.hold(size/10 + w.c.rng.Int64N(size/2))
	w.underway, w.release = r.holds, r.letGo
	live := r.live()
	rank := live[w.c.rng.IntN(len(live))].Rank
	w.where = func() int { return rank }
	outcomes := make([]outcome, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { outcomes[i] = outcome{piece: i, node: rank, attempts: 1, err: do(name)} })
	}
	w.wait = func() []outcome {
		all.Wait()
		for i, name := range names {
			if outcomes[i].err == nil {
				outcomes[i].wrong = whole(name)
			}
		}
		return outcomes
	}
}

func beginUploads(w *work) {
	local := w.t.TempDir()
	names, size := w.files(local)
	at := "up-" + filepath.Base(w.dir)
	want, have := localSums(w.t, local), sync.OnceValue(func() map[string]string { return w.c.r.sums(w.t, at) })
	w.copies(names, size, func(name string) error {
		return w.pool.Upload(filepath.Join(local, name), at+"/"+name)
	}, func(name string) error { return w.arrived(name, want, have()) })
	w.cleanUp = func() {
		w.nothingHalf(want, have())
		w.c.r.inEach(w.t, `rm -rf ~/.gputrain/pools/*/work/`+at)
	}
}

// arrived compares the hashes of the files of a piece with those on each node.
func (w *work) arrived(name string, want, have map[string]string) error {
	for _, n := range w.c.r.live() {
		for path, sum := range want {
			if at := fmt.Sprintf("%d/%s", n.Rank, path); (path == name || strings.HasPrefix(path, name+"/")) && have[at] != sum {
				return fmt.Errorf("node %d: %s has the hash %q, not %q", n.Rank, path, have[at], sum)
			}
		}
	}
	return nil
}

// nothingHalf checks that every file that arrived is complete and has its own name. Failed ones may be missing.
func (w *work) nothingHalf(want, have map[string]string) {
	for at, sum := range have {
		if rank, path, _ := strings.Cut(at, "/"); want[path] != sum {
			w.t.Errorf("node %s: %s is incomplete, or should not exist", rank, path)
		}
	}
}

// smallDisk is the size of the disk for downloads, in bytes, if the disk is full.
const smallDisk = 256 << 10

func beginDownloads(w *work) {
	source, local := w.t.TempDir(), w.t.TempDir()
	if w.c.fault.fillsDisk {
		disktest.Mount(w.t, local, smallDisk)
	}
	names, size := w.files(source)
	at := "down-" + filepath.Base(w.dir)
	for _, name := range names {
		if w.c.shape != shapeGather {
			if err := w.c.r.pool.Upload(filepath.Join(source, name), at+"/"+name); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if w.c.shape == shapeGather {
		if err := w.c.r.pool.Upload(source, at); err != nil {
			w.t.Fatal(err)
		}
	}
	want, have := localSums(w.t, source), sync.OnceValue(func() map[string]string { return localSums(w.t, local) })
	if w.c.fault.fillsDisk {
		size = smallDisk / 4 // more may never arrive
	}
	w.copies(names, size*int64(len(w.c.r.live())), func(name string) error {
		return w.pool.Download(at+"/"+name, local)
	}, func(name string) error { return w.arrived(name, want, have()) })
	w.cleanUp = func() {
		w.nothingHalf(want, have())
		w.c.r.inEach(w.t, `rm -rf ~/.gputrain/pools/*/work/`+at)
	}
}
