package status

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// A source is what a Recorder is to this package.
type source interface {
	Run() observe.Run
	Events(ctx context.Context, after int64) iter.Seq[observe.Entry]
}

const (
	// Updates of a stream are updatePause apart at least. All streams share a view of the Run that is not older.
	updatePause = 500 * time.Millisecond
	// keptGone is how many keys of parts that are gone are kept for updates.
	keptGone = 20_000
)

// A feed follows a Run, and knows which of its parts have changed since when.
type feed struct {
	source source

	mu     sync.Mutex
	last   *view
	taken  time.Time // when the last view was made
	round  int64     // counts views
	gone   []goneKey // the last that are gone
	since  int64     // what has changed after this number is known
	tables struct {
		pools, nodes, groups table[string]
		tasks                table[taskMark]
		phases               table[phaseMark]
		transfers            table[transferMark]
		failures             table[bool]
		offers               table[offerMark]
	}
}

// A view is a Run at one moment. It does not change.
type view struct {
	run observe.Run
	// changed are the numbers of the Runs in which each part was seen to have changed.
	changed map[section][]int64
	gone    []goneKey
	since   int64
}

// A goneKey is what is not kept any more from Run seq on.
type goneKey struct {
	seq     int64
	section section
	key     string
}

// view returns a view that is younger than most.
func (f *feed) view(most time.Duration) *view {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && time.Since(f.taken) < most {
		return f.last
	}
	r := f.source.Run()
	f.round++
	if f.last == nil {
		f.since = r.Seq
	}
	v := &view{run: r}
	t := &f.tables
	v.changed = map[section][]int64{
		pools:     update(f, &t.pools, pools, r, r.Pools, poolKey, func(p observe.Pool) string { return formMark(compactPool(p)) }),
		nodes:     update(f, &t.nodes, nodes, r, r.Nodes, nodeKey, func(n observe.Node) string { return formMark(compactNode(n)) }),
		tasks:     update(f, &t.tasks, tasks, r, r.Tasks, taskKey, markOfTask),
		groups:    update(f, &t.groups, groups, r, r.Groups, groupKey, func(g observe.Group) string { return formMark(runjson.GroupOf(g)) }),
		phases:    update(f, &t.phases, phases, r, r.Phases, phaseKey, markOfPhase),
		transfers: update(f, &t.transfers, transfers, r, r.Transfers, transferKey, markOfTransfer),
		failures:  update(f, &t.failures, failures, r, r.Failures, failureKey, func(f observe.Failure) bool { return f.Retried }),
		offers:    update(f, &t.offers, offers, r, r.Offers, offerKey, func(o observe.Offer) offerMark { return offerMark{o.State, o.Err} }),
	}
	if over := len(f.gone) - keptGone; over > 0 {
		f.since = f.gone[over-1].seq
		f.gone = append([]goneKey(nil), f.gone[over:]...)
	}
	v.gone, v.since = f.gone[:len(f.gone):len(f.gone)], f.since
	f.last, f.taken = v, time.Now()
	return v
}

// after returns what has changed after a number, and whether that is known.
func (v *view) after(seq int64) (part, bool) {
	if seq < v.since || seq > v.run.Seq {
		return part{}, false
	}
	p := part{summary: true, has: func(s section, i int) bool { return v.changed[s][i] > seq }}
	for _, g := range v.gone {
		if g.seq > seq {
			if p.gone == nil {
				p.gone = map[section][]string{}
			}
			p.gone[g.section] = append(p.gone[g.section], g.key)
		}
	}
	return p, true
}

// A table has a mark of each part of a list by its key: a part has changed if its mark has.
type table[M comparable] map[string]row[M]

type row[M comparable] struct {
	mark          M
	changed, seen int64
}

// update brings a table up to date, and returns when each part has changed.
func update[T any, M comparable](f *feed, t *table[M], s section, r observe.Run, all []T, key func(T) string, mark func(T) M) []int64 {
	if *t == nil {
		*t = table[M]{}
	}
	changed := make([]int64, len(all))
	for i, v := range all {
		k, m := key(v), mark(v)
		old, ok := (*t)[k]
		if !ok || old.mark != m {
			old = row[M]{mark: m, changed: r.Seq}
		}
		old.seen = f.round
		(*t)[k] = old
		changed[i] = old.changed
	}
	if len(*t) > len(all) {
		for k, old := range *t {
			if old.seen != f.round {
				delete(*t, k)
				f.gone = append(f.gone, goneKey{r.Seq, s, k})
			}
		}
	}
	return changed
}

// Marks have what tells two states of a part from each other. Texts that come with one of these are not in them.
type (
	taskMark struct {
		state, node                    string
		attempt, slot, rank            int
		queued, started, ended, stepAt time.Time
		step                           int64
		perSecond, usd                 float64
		err                            string
	}
	phaseMark struct {
		state, err string
		ended      time.Time
		progress   gputrain.Progress
	}
	transferMark struct {
		state, err   string
		at           time.Time
		bytes, total int64
	}
	offerMark struct{ state, err string }
)

func markOfTask(t observe.Task) taskMark {
	return taskMark{t.State, t.Node, t.Attempt, t.Slot, t.Rank, t.Queued, t.Started, t.Ended, t.StepAt, t.Step.N, t.PerSecond, t.SpentUSD, t.Err}
}

func markOfPhase(p observe.Phase) phaseMark {
	return phaseMark{p.State, p.Err, p.Ended, p.Progress}
}

func markOfTransfer(t observe.Transfer) transferMark {
	return transferMark{t.State, t.Err, t.At, t.Bytes, t.Total}
}

// formMark is a mark that has everything that is shown.
func formMark(form any) string {
	text, _ := json.Marshal(form) // the forms have nothing that JSON cannot have
	return string(text)
}
