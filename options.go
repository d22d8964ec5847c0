package gputrain

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/history"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/transfer"
)

// An Option is a setting that a program gives a pool beside its Spec.
type Option func(*options)

type options struct {
	name           string
	stdout, stderr io.Writer
	rawOutput      bool
	events         []func(Event)
	sampled        []sample
	lines          []func(Line)
	taskEnv        func(Event) map[string]string
	usage          time.Duration // between two samples of hosts; zero means none
	logger         *slog.Logger
	resultsDir     string
	workerBinaries []string
	sourceDir      string
	stateDir       StateDir
	takeover       bool
	noGuardian     bool
	quiet          bool
	baking         bool              // the pool is Bake's: it starts from no baked image
	secrets        map[string]Secret //secretvet:ignore no message formats options
	limits         Limits
}

// WithName names the pool. The name is part of the pool's ID and of the tags at the provider:
// letters, digits and dashes, at most 30.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithQuiet leaves out the line that says, while Open waits for machines, what it waits for and what they cost. It is shown after a
// second, only if stderr is a terminal, and if nothing else tells: no [WithEvents], no [WithSampledEvents], no [WithLogger].
func WithQuiet() Option { return func(o *options) { o.quiet = true } }

// WithOutput writes the output of tasks and phases to the two writers as it comes, line by line.
// Each line has a prefix that names its task, or its node if functions run at the same time in one
// process: see [Func]. Either writer may be nil. Writes are never concurrent, also if both are the
// same. A writer that blocks holds up the tasks that print.
//
// A node can write anything, and the writers are often a terminal: lines lose colours and all
// control characters except tabs, and bytes that are not UTF-8 become U+FFFD. [WithRawOutput]
// changes that. Result.Stdout and Stderr are always as they came.
//
// A line that returns to its start by carriage returns, as progress bars do, is shown while it
// changes. On an [os.File] that is a terminal (not on Windows, nor if TERM is unset or "dumb") its
// last state is below all whole lines, renewed up to four times a second; if several tasks have
// such a line, they take turns of a second. Any other writer, such as a log file, gets the state as
// a line of its own every ten seconds at most. The final state of a line is written once.
func WithOutput(stdout, stderr io.Writer) Option {
	return func(o *options) { o.stdout, o.stderr = stdout, stderr }
}

// WithRawOutput gives WithOutput's writers the bytes of each line as they came, except for secrets:
// with colours, and with whatever else makes a terminal act. It is for trusted nodes, and for
// writers that are not terminals. What comes up to a carriage return is written within a quarter of
// a second, with a prefix like a line.
func WithRawOutput() Option { return func(o *options) { o.rawOutput = true } }

// Options makes one option of several.
func Options(all ...Option) Option {
	return func(o *options) {
		for _, opt := range all {
			opt(o)
		}
	}
}

// WithEvents calls f for every event, one at a time, in order. It may be given several times: each f has its own pace. A slow
// f delays its later events, and Close, but nothing else. f must not close the pool, or leave it.
//
// At most 100 000 routine events wait for f (a task that is queued, started, done or cancelled, a
// phase that succeeds, how far a transfer is, what the pool costs), 10 000 failures and retries of tasks, and 100 000 others, of nodes,
// of preemptions and of what failed there. Beyond that the older half of that kind is left out, and an [EventOmitted] in its place
// counts them. Events of the pool as a whole, of which there are few, are never left out.
func WithEvents(f func(Event)) Option {
	return func(o *options) {
		if f != nil {
			o.events = append(o.events, f)
		}
	}
}

// WithSampledEvents is WithEvents for a view of very many tasks: in each second, f gets the events of perSecond tasks that are
// queued or begin to run. It also gets those of every task that fails, is retried, reports a step or falls silent, from then on. The
// first event of a task says that it was queued. The others are counted: an [EventTally], up to four times a
// second, says how many wait, run and have ended. perSecond is at least 1; if the option is given several times, the smallest counts.
func WithSampledEvents(perSecond int, f func(Event)) Option {
	return func(o *options) {
		if f != nil {
			o.sampled = append(o.sampled, sample{max(perSecond, 1), f})
		}
	}
}

// A sample is a function that gets the events of so many tasks in a second.
type sample struct {
	perSecond int
	f         func(Event)
}

// WithTaskEnv calls f when an attempt at a command is about to start, and adds what it returns to the command's environment:
// TRACEPARENT, for example. The Event is the one of state "started" that follows, without its Seq and Time; its state is "counted"
// if functions of [WithSampledEvents] will not get it. Task.Env and
// Task.Secrets override it. Names that are no environment variable's, or that gputrain sets itself, are left out. f must return
// soon: the attempt waits for it. Functions share one process, and have no
// environment of their own; the processes of a [Training] are not asked for.
func WithTaskEnv(f func(Event) map[string]string) Option {
	return func(o *options) { o.taskEnv = f }
}

// WithUsage also samples what the processors, the memory and the disk of every node do, as Usage.Host of [EventUsage]. every
// is the time between two samples, and at least a second. Zero means none, as without it.
func WithUsage(every time.Duration) Option { return func(o *options) { o.usage = every } }

// WithLogger writes every event through a logger: failures at level warn, how far a transfer is at
// level debug, the rest at level info.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithResultsDir names the folder for Outputs, and for output streams that are too long for memory
// (see [Limits]): one folder for each attempt, which only this user can enter. They stay there after
// Close. By default it is a folder in "results" of the state directory, see [StateDir], whose name
// begins with the pool's ID; it is made when it is first needed, and Attach continues to use it.
// The user removes results: Close and Reap never do.
func WithResultsDir(dir string) Option { return func(o *options) { o.resultsDir = dir } }

// WithoutGuardian declines the guardian of the pool.
//
// If machines of the pool's provider cannot end themselves, [Open] and [Attach] start this program
// once more, in a session of its own. That process, the guardian, waits for the end of this
// program, however it comes, then for the end of the pool's lease or TTL, and ends the pool then,
// unless it is closed or attached to by that time. It reads the pool's ledger, and gets the
// provider's Config, with what credentials are in it, through a pipe; references and the
// environment's variables it looks up itself, when it needs them. A guardian that is killed does the
// pool no harm. It does not survive its computer, nor the end of its container: [Guard] on another
// one does.
//
// There is none for a program that has not called [Init], nor for a Config that only this process
// has, such as one with an HTTPClient, or of a type that is not registered (driver.RegisterConfig).
// An [EventTrouble] of state "guardian" says so; and without Init, or if the guardian cannot be
// started, Open fails before anything is rented, unless the guardian is declined.
func WithoutGuardian() Option { return func(o *options) { o.noGuardian = true } }

// WithWorkerBinary names a program that serves functions on nodes of another platform than this
// program's: the same main package, built for that platform (GOOS=linux GOARCH=amd64 CGO_ENABLED=0
// go build). Give it once for each of several platforms.
//
// For a platform without such a program, this program is built with the Go toolchain, with the same
// tags and, unless it was built with -trimpath, the same -ldflags=-X. It is also built so,
// statically, for nodes of its own platform that lack the C libraries it was linked with. The
// sources are those of its module's version, by the checksum that the program has of it, or are in
// the folder that the program was built from, which it knows unless built with -trimpath, or in
// that of [WithSourceDir]. A folder that another user can change is not used, and files that are
// newer than the program are refused as changed.
func WithWorkerBinary(path string) Option {
	return func(o *options) { o.workerBinaries = append(o.workerBinaries, path) }
}

// WithSourceDir names a folder in the module of this program, from which it is built for nodes of
// other platforms; no other folder is used. It is for a program that was built with -trimpath, or
// whose sources were moved. A relative path is below the working directory at the time of this
// call. Empty means none.
//
// The caller is responsible for the folder, as with go build there: its owner is not checked.
// Another main package or module, other versions of dependencies, and files that are newer than the
// program are still errors. See [WithWorkerBinary] for builds without this option.
func WithSourceDir(dir string) Option {
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		dir = abs
	}
	return func(o *options) { o.sourceDir = dir }
}

// wants returns what the market looks for.
func (o *options) wants(spec Spec) market.Wants {
	w := spec.wants()
	if o.baking {
		w.Baked = ""
	}
	return w
}

func (o *options) validate() error {
	var f invalid.Faults
	if len(o.name) > 30 {
		f.Add("the name %q has %d characters; 30 fit", o.name, len(o.name))
	}
	for _, r := range strings.ToLower(o.name) {
		if !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') {
			f.Add("the name %q has %q; letters, digits and dashes are taken", o.name, fmt.Sprintf("%c", r))
			break
		}
	}
	for _, name := range o.workerBinaries {
		if _, err := crossbuild.Identify(name); err != nil {
			f.Add("WithWorkerBinary: %v", err)
		}
	}
	if o.sourceDir != "" {
		if info, err := os.Stat(o.sourceDir); err != nil {
			f.Add("WithSourceDir: %v", err)
		} else if !info.IsDir() {
			f.Add("WithSourceDir: %s is not a folder", o.sourceDir)
		}
	}
	if o.usage != 0 && o.usage < time.Second {
		f.Add("WithUsage: %v is less than a second", o.usage)
	}
	o.limits.validate(&f)
	for name, value := range o.secrets {
		f.Secret(fmt.Sprintf("WithSecrets[%q]", name), value)
	}
	return f.Err("options")
}

// Limits bound what nodes can make this program keep, in memory and on disk. A zero field means the
// default that its comment names; -1 means no bound by this package.
type Limits struct {
	// ResultBytes bounds the encoded result of one call of a function, and each value that a
	// function sends through a stream. Zero means 2 GiB. A longer one fails the call with
	// [ErrLimit].
	ResultBytes int64
	// OutputBytes bounds how much of each output stream of an attempt is kept on this computer.
	// Zero means 16 GiB. What comes beyond it is shown by WithOutput and counted in
	// Result.StdoutBytes and StderrBytes, and is not kept.
	OutputBytes int64
	// KeptOutputBytes bounds how much of each output stream of an attempt is kept in memory, in
	// Result.Stdout and Stderr. Zero means 1 MiB. A file has all of a longer stream.
	KeptOutputBytes int64
	// KeptTotalBytes bounds the sum of that over all tasks whose results the program has not
	// received: those of a Gather until it returns, of a Job until Wait returns. Zero means 1 GiB.
	// While it is used up, 4 KiB of each further stream are kept in memory, and a file has all of a
	// longer one.
	KeptTotalBytes int64
	// DownloadBytes bounds what one node sends for one Download, or for the Outputs of
	// one attempt. Zero means 256 GiB. More is [ErrLimit].
	DownloadBytes int64
	// DownloadFiles bounds the number of these files, folders and links. Zero means a million. More
	// is [ErrLimit].
	DownloadFiles int
}

// WithLimits sets [Limits] other than the defaults.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

func (l Limits) validate(f *invalid.Faults) {
	for name, n := range map[string]int64{
		"ResultBytes": l.ResultBytes, "OutputBytes": l.OutputBytes,
		"KeptOutputBytes": l.KeptOutputBytes, "KeptTotalBytes": l.KeptTotalBytes,
		"DownloadBytes": l.DownloadBytes, "DownloadFiles": int64(l.DownloadFiles),
	} {
		if n < -1 {
			f.Add("WithLimits: %s is %d; -1 is for no bound", name, n)
		}
	}
}

func (l Limits) resultBytes() int64   { return bound(l.ResultBytes, 2<<30) }
func (l Limits) downloadBytes() int64 { return bound(l.DownloadBytes, 256<<30) }
func (l Limits) downloadFiles() int64 { return bound(int64(l.DownloadFiles), 1_000_000) }

// output returns the limits of what tasks print.
func (l Limits) output() output.Limits {
	return output.Limits{
		Stream:       bound(l.OutputBytes, 16<<30),
		StreamMemory: bound(l.KeptOutputBytes, 1<<20),
		Memory:       bound(l.KeptTotalBytes, 1<<30),
	}
}

// transfer returns the limits for the files of one Download, or of an attempt's Outputs.
func (l Limits) transfer() transfer.Limits {
	return transfer.Limits{Bytes: l.downloadBytes(), Files: l.downloadFiles()}
}

// bound returns the value of a field of Limits, or its default.
func bound(n, byDefault int64) int64 {
	switch {
	case n == 0:
		return byDefault
	case n < 0:
		return math.MaxInt64
	}
	return n
}

// A StateDir is a folder in which programs keep the ledgers of their pools, and results that are
// too long for memory: see [WithStateDir]. If it is empty, that is gputrain's folder in the
// user's state directory: $XDG_STATE_HOME/gputrain, or ~/.local/state/gputrain.
type StateDir string

// WithStateDir sets the folder of the pool's ledger: the record of everything that is made for the
// pool, which Attach and Reap read. It must be on a disk that outlives the program, and be only
// this user's: a folder that another user owns, can write to or can replace is [ErrLedger]. The
// default is that of [StateDir].
func WithStateDir(dir string) Option { return func(o *options) { o.stateDir = StateDir(dir) } }

const hintStateDir = "WithStateDir, or a StateDir, names the folder to use"

// path returns the folder's absolute path.
func (d StateDir) path() (string, error) {
	path, err := string(d), error(nil)
	if path == "" {
		path, err = ledger.DefaultDir()
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &Error{Op: "find the state directory", Kind: ErrLedger, Err: err, Hint: hintStateDir}
	}
	return path, nil
}

// ForgetFailures forgets which machines have failed: those of these offers, or all of them. Pools of
// this folder remember for a week that a physical machine ([Offer].Host) did not come up, or was not
// what its offer promised, and for a day that two machines of an instance type in a region did, one after
// the other. They avoid them, and [Plan] shows why, until such a machine comes up.
func (d StateDir) ForgetFailures(offers ...Offer) error {
	if err := d.history().Forget(offers...); err != nil {
		return &Error{Op: "forget failures", Kind: ErrUnavailable, Err: err}
	}
	return nil
}

// history returns the history of machines that is kept in the folder.
func (d StateDir) history() *history.Book {
	path, err := d.path()
	if err != nil {
		return history.In("") // the ledger reports that
	}
	return history.In(path)
}

func (d StateDir) open() (*ledger.Dir, error) {
	path, err := d.path()
	if err != nil {
		return nil, err
	}
	dir, err := ledger.OpenDir(path)
	if err != nil {
		return nil, &Error{Op: "open the state directory", Kind: ErrLedger, Err: err, Hint: hintStateDir}
	}
	return dir, nil
}

var errNoLedger = fmt.Errorf("%w: no pool of that name or ID is known here", ErrNotFound)
