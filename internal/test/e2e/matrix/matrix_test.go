//go:build linux

package matrix

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/e2etest"
)

// matrixSeed names the variable that determines all random choices of the matrix: which work runs when a fault strikes,
// on which node, how often, and how the fault ends. Setting it repeats a run.
const matrixSeed = "GPUTRAIN_MATRIX_SEED"

// TestFaultMatrix runs every kind of work, in every shape, under every fault, on real OpenSSH servers in containers.
// Each combination starts its work, waits until some of it is certainly running (and held there), applies the fault,
// lets the work continue, and checks three things:
//
//   - what was returned: every result once and correct, or the error that the fault's want requires;
//   - what ran, by a ledger that all work writes to: no attempt ran twice, and nothing ran that is not in the results;
//   - what remains on the nodes: the same processes and files as before.
//
// Combinations share a pool if their fault leaves it intact, which the third check proves each time. A killed node does
// not come back, so every kind has its own pool of four nodes for that fault: each shape kills one, and the last shape
// has no node to move to. A black hole waits for half a minute, so every kind has its own pool there too, to wait at
// the same time.
//
// Combinations that do not exist are skipped, with the reason. Some differ from the others:
//
//   - Upload and Download always involve all nodes of the pool: a single one copies one file, a gather is 200 copies at
//     once, and a broadcast is a folder with a big file.
//   - A command, an upload and a download need no worker. The death of the worker, or a call that kills it, must not
//     affect them.
//   - A node's full disk does not affect a download, which only reads. Instead, the disk of this machine is full.
func TestFaultMatrix(t *testing.T) {
	if os.Getenv("GPUTRAIN_MATRIX") == "" {
		t.Skip("scripts/test -deep runs it: it takes some minutes. GPUTRAIN_MATRIX=1 runs it alone")
	}
	e2etest.NeedDocker(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp) // files that a pool leaves on this machine are found there
	seed := number(t, matrixSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", matrixSeed, seed)

	var all sync.WaitGroup
	busy := make(chan bool, 3) // groups that mostly work; the idle ones do not count
	for _, f := range matrixFaults {
		groups := [][]*workKind{workKinds}
		if f.apart {
			groups = nil
			for _, k := range workKinds {
				groups = append(groups, []*workKind{k})
			}
		}
		for _, kinds := range groups {
			name := f.name
			if f.apart {
				name += "/" + kinds[0].name
			}
			all.Go(func() {
				atEnd := func() {}
				if !f.idle {
					busy <- true
					atEnd = sync.OnceFunc(func() { <-busy })
				}
				defer atEnd()
				t.Run(name, func(t *testing.T) {
					r := runMatrixGroup(t, f, kinds, seed)
					atEnd() // what follows mostly waits
					r.wantLittleLeft(t)
				})
			})
		}
	}
	all.Wait()
	if left := e2etest.Tree(tmp); len(left) > 0 {
		t.Errorf("these files are left on this machine:\n\t%s", strings.Join(left, "\n\t"))
	}
}

// runMatrixGroup applies a fault to every kind of work in every shape, in turn, in one pool.
func runMatrixGroup(t *testing.T, f *matrixFault, kinds []*workKind, seed uint64) *rig {
	r := openRig(t, f.nodes, f.spec, f.runArgs...)
	for _, k := range kinds {
		for _, s := range f.shapes {
			name := string(s)
			if !f.apart {
				name = k.name + "/" + name
			}
			t.Run(name, func(t *testing.T) {
				if why := k.without[s]; why != "" {
					t.Skip(why)
				}
				whole := fmt.Sprintf("%s/%s/%s", f.name, k.name, s)
				h := fnv.New64a()
				h.Write([]byte(whole))
				c := &combination{
					t: t, r: r, kind: k, shape: s, fault: f,
					rng: rand.New(rand.NewPCG(seed, h.Sum64())),
				}
				c.run()
			})
		}
	}
	return r
}

// A workShape is how much work runs at once.
type workShape string

const (
	shapeSingle    workShape = "single"
	shapeGather    workShape = "gather"
	shapeBroadcast workShape = "broadcast"
	shapeLast      workShape = "last" // single, on the last remaining node
)

// gatherOf is the number of pieces of a gather.
const gatherOf = 200

// A combination is one cell of the matrix.
type combination struct {
	t     testing.TB
	r     *rig
	kind  *workKind
	shape workShape
	fault *matrixFault
	rng   *rand.Rand

	work   *work
	target int    // the rank of the node that the fault hits
	also   func() // waits for and checks the fault's own effects
}

func (c *combination) run() {
	t := c.t
	begun := time.Now()
	c.work = newWork(c)
	c.kind.begin(c.work)
	t.Cleanup(c.work.release) // if the combination is given up
	e2etest.Until(t, "work that is under way", c.work.underway)
	time.Sleep(time.Duration(c.rng.IntN(50)) * time.Millisecond)
	c.target = c.work.where()
	c.fault.strike(c)
	struck := time.Since(begun)
	soon := c.rng.IntN(2) == 0
	if c.fault.released == early || c.fault.released == whenever && soon || c.kind.transfer && c.fault.released == never {
		c.work.release()
	}
	var outcomes []outcome
	if c.fault.released != whenever {
		outcomes = c.work.wait()
	}
	if c.fault.mend != nil {
		c.fault.mend(c)
	}
	if c.fault.released == whenever {
		c.work.release()
		outcomes = c.work.wait()
	}
	c.judge(outcomes)
	c.work.checkLedger(outcomes)
	c.work.cleanUp()
	c.r.wantAtRest(t)
	t.Logf("struck node %d after %v, over after %v", c.target, struck.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
}

// An outcome is the result of one piece of work.
type outcome struct {
	piece    int
	node     int
	attempts int
	err      error
	wrong    error // why the result is wrong, if err is nil
}

// hit reports whether the fault affected the piece.
func (o outcome) hit() bool { return o.err != nil || o.attempts > 1 }

func (c *combination) judge(outcomes []outcome) {
	t := c.t
	hits := 0
	seen := map[int]bool{}
	for _, o := range outcomes {
		if seen[o.piece] {
			t.Errorf("piece %d has two results", o.piece)
		}
		seen[o.piece] = true
		if o.err == nil && o.wrong != nil {
			t.Errorf("piece %d (node %d, attempt %d): %v", o.piece, o.node, o.attempts, o.wrong)
		}
		if o.hit() {
			hits++
		}
		if why := c.fault.want(c, o); why != "" {
			t.Errorf("piece %d (node %d, attempt %d) ended with %v: %s", o.piece, o.node, o.attempts, o.err, why)
		}
	}
	if len(outcomes) != c.work.pieces() {
		t.Errorf("%d results of %d", len(outcomes), c.work.pieces())
	}
	if c.fault.hits != nil {
		if why := c.fault.hits(c, hits); why != "" {
			t.Errorf("the fault affected %d pieces: %s", hits, why)
		}
	}
	if t.Failed() {
		c.r.mu.Lock()
		t.Logf("attempts of this pool that were repeated:\n\t%s", strings.Join(c.r.retries, "\n\t"))
		c.r.mu.Unlock()
	}
	if c.also != nil {
		c.also()
	}
}
