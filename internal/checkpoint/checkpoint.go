// Package checkpoint keeps the checkpoints of one task: it copies those that appear on the task's nodes to this computer,
// and puts the newest back on its nodes before it starts again.
//
// A checkpoint is an entry of a folder on the nodes. A folder step-<n> that appears there by a rename is whole at once. Any other
// file or folder is whole once it has not changed for settleTime. What was copied is looked at once more, by the form of
// its files: one that is certainly torn is not kept. Of a task with several nodes, the first node's entry makes a checkpoint whole,
// and every node may have a part of it. Names that begin with a dot are not looked at.
package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/transfer"
)

const (
	// If Config.Keep is zero, DefaultKeep checkpoints are kept.
	DefaultKeep = 2
	// If Config.Every is zero, nodes are looked at each DefaultEvery.
	DefaultEvery = 30 * time.Second
)

// A Config says what a Keeper keeps, and where.
type Config struct {
	// To is the folder of this computer that has the task's checkpoints.
	To string
	// Keep is how many are kept, here and on the nodes, and Every how often the nodes are looked at.
	Keep  int
	Every time.Duration
	// Shared means that the nodes' folder is on storage that all of them see: nothing is copied.
	Shared bool
	// Limits bound what a node sends for one checkpoint.
	Limits transfer.Limits
	// Report, if not nil, is called once a checkpoint is here, and when one cannot come: once as long as the reason is the same.
	Report func(Report)
	// Transfer, if not nil, is called before a checkpoint moves from or, if sending, to a node. It returns what is told how
	// far that is, and what is called at its end.
	Transfer func(n Node, name string, sending bool) (transfer.Progress, func(error))
}

// A Report says that a checkpoint has come to this computer or, with Err, that it could not.
type Report struct {
	// Name is the checkpoint's, and Path its path here. Both are empty if Err is about all checkpoints.
	Name, Path string
	// Step is the n of step-<n>, or -1.
	Step int64
	Err  error
}

// A Node is one node of the task.
type Node struct {
	// Rank is the node's rank in the pool, for Config.Transfer, and Name is for errors.
	Rank int
	Name string
	// Dir is the absolute path of the checkpoints' folder there, and Notice that of the file that announces the node's end.
	Dir, Notice string
	Files       Files
}

// Files accesses the files of a node. A transfer.Mirror does.
type Files interface {
	Script(ctx context.Context, about, text string, most int64, vars ...string) (string, error)
	Contents(ctx context.Context, dir, name string, most transfer.Limits) ([]transfer.Content, error)
	FetchFiles(ctx context.Context, files []transfer.Content, localDir string, o transfer.FetchOptions) ([]transfer.File, error)
	Sums(ctx context.Context, dir string, names []string) ([]string, error)
	Upload(ctx context.Context, local, remote string, o transfer.Options) error
}

// A Keeper keeps the checkpoints of one task, over all its attempts. Restore, Watch and Last must not be called
// concurrently; the other methods may be called at any time.
type Keeper struct {
	cfg   Config
	store store
	wake  chan struct{} // asks Watch to look now

	backoff backoff // after a copy that failed
	torn    tornOnes
	attempt // the one that runs

	mu      sync.Mutex
	urgent  bool              // a node's end was announced: look often
	copied  map[string]string // the stamps of those that were copied, also if they are no longer here
	refused map[string]bool   // those that must not be copied, or resumed from
	copying string            // the checkpoint that is copied now
	brought int               // since of the last one that this attempt has copied
	said    string            // the text of the last error that was reported

	// Only Restore, Watch and Last use these.
	history
	step     int64           // the greatest that was seen of this attempt, or -1
	ran      bool            // the task has run under this Keeper
	foreign  map[string]bool // what was on the nodes before the task has run
	measured bool            // the nodes' free space was compared
}

// New returns a Keeper that has not looked at anything.
func New(c Config) *Keeper {
	c.Keep, c.Every = cmp.Or(c.Keep, DefaultKeep), cmp.Or(c.Every, DefaultEvery)
	k := &Keeper{
		cfg: c, store: store{c.To}, history: history{settle: settleTime}, attempt: attempt{keep: c.Keep}, wake: make(chan struct{}, 1),
		copied: map[string]string{}, refused: map[string]bool{}, step: -1,
	}
	if !c.Shared {
		k.store.repair()
	}
	k.begin()
	return k
}

// Newest returns the path and the step of the newest whole checkpoint that is here: "" if there is none, and -1 if its name
// has no step.
func (k *Keeper) Newest() (path string, step int64) {
	if k.cfg.Shared {
		return "", -1
	}
	e, ok := k.store.newest()
	if !ok {
		return "", -1
	}
	return filepath.Join(k.cfg.To, e.Name), e.step()
}

// SetAside gives a checkpoint up, since the task fails with it: it is not resumed from again. It stays here, and on the
// nodes, under a hidden name.
func (k *Keeper) SetAside(name string) error {
	k.mu.Lock()
	k.refused[name] = true
	delete(k.copied, name)
	k.mu.Unlock()
	if k.cfg.Shared {
		return nil
	}
	return k.store.setAside(name)
}

func (k *Keeper) isRefused(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused[name]
}

// report reports an error, unless it is the same as the last one.
func (k *Keeper) report(r Report) {
	if errors.Is(r.Err, context.Canceled) {
		return
	}
	text := ""
	if r.Err != nil {
		text = r.Err.Error()
	}
	k.mu.Lock()
	again := r.Err != nil && text == k.said
	k.said = text
	k.mu.Unlock()
	if !again && k.cfg.Report != nil {
		k.cfg.Report(r)
	}
}

// stepPrefix begins the names of checkpoints that are whole at once.
const stepPrefix = "step-"

// stepOf returns the n of step-<n>, or -1.
func stepOf(name string) int64 {
	digits, ok := strings.CutPrefix(name, stepPrefix)
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return -1
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
