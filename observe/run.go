package observe

import (
	"time"

	"github.com/gputrain/gputrain"
)

// A Run is what a Recorder knows: the pools that it observes, and everything in them, at one moment. It is a value: nothing in
// it changes, and nothing in it is to be changed. Its parts refer to each other by IDs.
type Run struct {
	// At is the moment, and Began that of the first event.
	Began, At time.Time
	// Seq is the number of the newest Entry that it has.
	Seq int64
	// Pools are in the order in which they were opened, Nodes by pool and rank, with those that are gone after them. Tasks are in
	// the order in which they were queued; of those that ended well or were cancelled the last 10 000 are kept, and of those that
	// failed 1000; so are only some of very many in a second, see Config.Tasks. Groups and Counts have all. Phases and Transfers are in the order in which they began: the last 10 000.
	Pools     []Pool
	Nodes     []Node
	Tasks     []Task
	Groups    []Group
	Phases    []Phase
	Transfers []Transfer
	// Counts are those of all pools.
	Counts Counts
	// The costs are those of all pools. SpentUSD is what they have cost until At, and HourlyUSD what they cost per hour then.
	// BudgetUSD is the sum of the budgets, or 0 if a pool has none. AtMostUSD is what they cost at most if this program dies now;
	// it means something only if Bounded.
	SpentUSD, HourlyUSD, BudgetUSD, AtMostUSD float64
	Bounded                                   bool
	// Failures are what went wrong, in order: the last 1000.
	Failures []Failure
	// Offers are those that were tried, in order: the last 1000.
	Offers []Offer
	// Omitted counts the events and lines that were left out.
	Omitted int
}

// Counts says how many there are.
type Counts struct {
	// Nodes that are Ready, coming up (Starting), failed or unreachable (Broken), and gone.
	Ready, Starting, Broken, Gone int
	// Slots of ready nodes, and how many of them are Busy.
	Slots, Busy int
	// Tasks that wait, run, and have ended. Retries counts attempts that were followed by another one.
	Waiting, Running, Done, Failed, Cancelled, Retries int
}

// Tasks returns the number of all tasks.
func (c Counts) Tasks() int { return c.Waiting + c.Running + c.Done + c.Failed + c.Cancelled }

// A Pool is one pool of a Run.
type Pool struct {
	ID string
	// State is the last state of its EventPool: "opening", "ready", "closed".
	State string
	// Spec is what was asked for, or nil if the recorder came later. It has no values of secrets.
	Spec *gputrain.Spec
	// Opened is when its first event came, ReadyAt when it became ready, and Closed when it ended. They are zero before that.
	Opened, ReadyAt, Closed time.Time
	// Cost is the newest that is known, and CostAt when that was so. While it runs it has no Nodes.
	Cost   gputrain.Cost
	CostAt time.Time
	// Waiting is what it waits for, if it does: the newest EventWait since the last change of a node.
	Waiting string
	// Err is why it ended, if that was an error.
	Err string
}

// A Node is one machine of a pool.
type Node struct {
	gputrain.Node
	Pool string
	// Key names it among all nodes of the Run: a rank can be that of several machines, one after the other.
	Key string
	// State is the name of its NodeState, and Since is when it entered it. Gone is when it ended, or zero.
	State string
	Since time.Time
	Gone  time.Time
	// Launched is when its machine was asked for, and ReadyAt when it was ready first, or zero.
	Launched, ReadyAt time.Time
	// Phase is the one that runs, or "": its key among Phases.
	Phase string
	// Tasks are the IDs of the tasks that run on it.
	Tasks []string
	// Ended counts the attempts that have ended on it, and BusyTime is the sum of their times, for each slot that they had: a
	// training has all.
	Ended    int
	BusyTime time.Duration
	// Usage has its newest samples of accelerators, Host the newest sample of its machine, or nil.
	Usage   []gputrain.AcceleratorSample
	Host    *gputrain.HostSample
	UsageAt time.Time
	// Load has samples of the whole time that the node was there, at most 500, for a plot.
	Load []Load
	// SpentUSD is what it has cost until Run.At, and Known whether its price is known.
	SpentUSD float64
	Known    bool
	// LeaseUntil is when it ends itself unless its lease is renewed, as known when it became ready; zero without a lease.
	LeaseUntil time.Time
	// Preempt is when its provider takes it back, or zero.
	Preempt time.Time
	// Err is the last thing that went wrong with it.
	Err string
}

// A Load is a sample of what a node does, in percent of all that it has. A negative number is not known.
type Load struct {
	At                time.Time
	Accelerators, CPU float64
}

// A Task is one task, or a training, whose ID begins with "training " and whose attempts are the gang's.
type Task struct {
	Pool, ID, Name string
	// State is "queued", "started", "done", "failed", "cancelled", "retrying" or "silent".
	State string
	// Node is the key of the node that it runs or ran on last, and Rank that node's rank. They are "" and -1 if there is none, and
	// for a training, which is on several.
	Node    string
	Rank    int
	Slot    int
	Attempt int
	// Queued is when it was submitted, Started when its last attempt began, and Ended when it was over; zero before that.
	Queued, Started, Ended time.Time
	Elapsed                time.Duration
	// Step is the newest step that it has reported; Steps counts them.
	Step   gputrain.Step
	StepAt time.Time
	// PerSecond is how many steps it takes in a second, a moving average over ten seconds, or 0.
	PerSecond float64
	// ExitCode and Cause are those of the last attempt that has ended.
	ExitCode int
	Cause    string
	SpentUSD float64
	Err      string
	// Attempts are all attempts that have begun.
	Attempts []Attempt
	// Lines are the last that it has printed: see Config.Lines.
	Lines []gputrain.Line
}

// ETA returns when the task will have taken its last step, if it goes on like this. It is false without a number of steps, in the
// first three seconds, before a hundredth is over, or if 15 seconds have passed without a step.
func (t Task) ETA(now time.Time) (time.Time, bool) {
	if t.Step.Of <= 0 || t.PerSecond <= 0 || t.State != "started" || now.Sub(t.Started) < etaAfter || t.IsStalled(now) || t.Step.N*100 < t.Step.Of {
		return time.Time{}, false
	}
	rest := max(float64(t.Step.Of-t.Step.N)/t.PerSecond-now.Sub(t.StepAt).Seconds(), 0)
	return now.Add(time.Duration(rest * float64(time.Second))), true
}

// IsStalled reports whether a task that has reported steps has not done so for 15 seconds, and for ten times as long as its steps
// take.
func (t Task) IsStalled(now time.Time) bool {
	if t.State != "started" || t.StepAt.IsZero() {
		return false
	}
	quiet := now.Sub(t.StepAt)
	return quiet > stalledAfter && (t.PerSecond <= 0 || quiet.Seconds() > 10/t.PerSecond)
}

const (
	etaAfter     = 3 * time.Second
	stalledAfter = 15 * time.Second
)

// A Group is all tasks of one name in one pool, the number that counts them at the end aside: "trial 7" is of group "trial". What is no
// such number stays: "lr-0.06" and "lr-1e-05" are groups of their own. There are 1000 at most; the tasks of others are in one without
// a name.
type Group struct {
	Pool, Name string
	// Tasks that have ended, by how, and their attempts.
	Done, Failed, Cancelled, Attempts int
	// Time is the sum of the times of all attempts, and SpentUSD what they cost.
	Time     time.Duration
	SpentUSD float64
}

// An Attempt is one attempt at a task.
type Attempt struct {
	Number int
	Node   string   // its key, or "" for a training
	Nodes  []string // the keys of a training's, by the ranks of its gang
	Slot   int
	// Began is when it was started, and Ended when it was over, or zero.
	Began, Ended time.Time
	ExitCode     int
	Cause        string // empty for success
	Err          string
}

// A Phase is one phase of a node's bootstrap, or a build of the program.
type Phase struct {
	Pool string
	Node string // its key, or "" for a build
	Rank int
	Name string
	// State is "started", "cached", "done" or "failed".
	State        string
	Began, Ended time.Time
	// Usual is how long it usually takes. Zero means unknown.
	Usual time.Duration
	// Progress is how far it has come, if it says so.
	Progress gputrain.Progress
	// Lines are the last that it has printed.
	Lines []gputrain.Line
	Err   string
}

// A Transfer is one transfer of files.
type Transfer struct {
	Pool       string
	Node       string // its key
	Rank       int
	Task, Name string // of a task's Outputs
	// What is what moves: its path, "files" of an image, or "outputs" of a task.
	What string
	// State is "sending", "receiving", "done" or "failed".
	State          string
	Began, At      time.Time
	Bytes, Total   int64
	BytesPerSecond float64
	Err            string
}

// A Failure is something that went wrong.
type Failure struct {
	Seq  int64
	At   time.Time
	Pool string
	// Kind is what it happened to: "pool", "node", "phase", "task", "accelerator", "offer", "training", "transfer", "trouble".
	Kind string
	// Node is the key of the node, and Rank its rank or -1. Task and Name are the task's, and Phase the phase's.
	Node       string
	Rank       int
	Task, Name string
	Phase      string
	Attempt    int
	Cause      string
	// Tail is the last lines of the task's stderr, and Stack the stack or traceback of what failed, if there is one.
	Tail, Stack string
	// Retried says that another attempt follows.
	Retried bool
	Err     string
}

// An Offer is an offer that was tried.
type Offer struct {
	At                             time.Time
	Pool                           string
	Provider, InstanceType, Region string
	HourlyUSD                      float64
	Known                          bool // the price
	Spot                           bool
	// State is "trying", "taken" or "refused".
	State string
	Err   string
}
