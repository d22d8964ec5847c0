//go:build linux

package gputrain_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// matrixSeed decides every choice that the matrix makes by chance: which work
// is under way when a fault strikes, on which node, how often, how the
// fault ends. Setting it repeats a run.
const matrixSeed = "GPUTRAIN_MATRIX_SEED"

// TestFaultMatrix has every kind of work, in every shape, under every fault,
// on real OpenSSH servers in containers. Each combination begins its work,
// waits until some of it is surely under way (and held there), lets the fault
// strike, lets the work go on, and judges three things:
//
//   - what came back: every result once, as it must be, or the error that the fault's want says;
//   - what ran, by a ledger that all work writes to: no attempt twice, and nothing that is not in the results;
//   - what is left on the nodes: the same processes and files as before.
//
// Combinations share a pool where their fault leaves it whole, which the
// last point proves each time. A node that was killed does not come back, so
// that every kind has a pool of its own there, of four nodes: each shape takes
// one, and the last has none to go to. A black hole is half a minute of waiting, so
// that every kind has a pool of its own there too, to wait at the same time.
//
// Combinations that do not exist are skipped, with the reason. Some mean something of their own:
//
//   - Upload and Download are for all nodes of the pool whatever their shape is: a single one
//     copies one file, a gather is 200 copies at once, and a broadcast is a folder with a big file.
//   - A command, an upload and a download need no worker, and the death of the one beside them, or a call
//     that it dies of, must not touch them.
//   - A node's full disk is no matter to a download, which reads. It gets a full disk on this machine.
func TestFaultMatrix(t *testing.T) {
	if os.Getenv("GPUTRAIN_MATRIX") == "" {
		t.Skip("it takes some minutes: GPUTRAIN_MATRIX=1 runs it")
	}
	needDocker(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp) // whatever a pool leaves on this machine is seen there
	seed := number(t, matrixSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", matrixSeed, seed)

	var all sync.WaitGroup
	busy := make(chan bool, 3) // groups that mostly work; the others mostly wait
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
	if left := tree(tmp); len(left) > 0 {
		t.Errorf("left on this machine:\n\t%s", strings.Join(left, "\n\t"))
	}
}

// runMatrixGroup has a fault strike every kind of work in every shape, one
// after another, in one pool.
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

// A workShape is how much work there is at once.
type workShape string

const (
	shapeSingle    workShape = "single"
	shapeGather    workShape = "gather"
	shapeBroadcast workShape = "broadcast"
	shapeLast      workShape = "last" // single, on the last node there is
)

// gatherOf is how many pieces a gather has.
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
	target int    // the rank of the node that the fault is about
	also   func() // what the fault itself has to wait for, and to judge
}

func (c *combination) run() {
	t := c.t
	begun := time.Now()
	c.work = newWork(c)
	c.kind.begin(c.work)
	t.Cleanup(c.work.release) // where it was given up
	until(t, "work that is under way", c.work.underway)
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

// An outcome is what became of one piece of work.
type outcome struct {
	piece    int
	node     int
	attempts int
	err      error
	wrong    error // why the result is not what it must be, where there is no err
}

// hit reports whether the fault touched the piece.
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
			t.Errorf("%d pieces were touched: %s", hits, why)
		}
	}
	if c.also != nil {
		c.also()
	}
}
