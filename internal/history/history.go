// Package history remembers across pools what became of machines: which did not come up, and how long
// others took; how long phases took; and what providers have last offered. These are small files in the state directory.
// Whatever is wrong with them, a pool opens without them.
package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/private"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A failure of a physical machine, or of a host of one owner, is remembered for hostFor.
	hostFor = 7 * 24 * time.Hour
	// Machines of an instance type in a region differ, and the provider chooses: their failures are
	// remembered for placeFor, and count once there were placeFailures in a row.
	placeFor      = 24 * time.Hour
	placeFailures = 2
	// Boot times are remembered for bootFor.
	bootFor = 30 * 24 * time.Hour
	// The last phaseRuns runs of a phase are remembered for phaseFor.
	phaseRuns, phaseFor = 5, 90 * 24 * time.Hour

	// The file has at most maxEntries entries, and maxBytes bytes.
	maxEntries, maxBytes = 2000, 1 << 20
	// Another program that writes the file is waited for lockWithin.
	lockWithin = 2 * time.Second
	// A reason has at most maxReason bytes.
	maxReason = 300
)

// An entry is what is known of one machine, of the machines of one place, or of one phase.
type entry struct {
	// Failures is the number of machines in a row that failed, the last one At and for the Reason.
	Failures int           `json:",omitempty"`
	At       time.Time     `json:",omitzero"`
	Reason   string        `json:",omitempty"`
	Boot     time.Duration `json:",omitempty"` // of the last one that came up
	BootAt   time.Time     `json:",omitzero"`

	Runs  []time.Duration `json:",omitempty"` // of a phase, the newest last
	RunAt time.Time       `json:",omitzero"`
}

// isOver reports whether nothing of the entry counts any longer.
func (e entry) isOver(key string, now time.Time) bool {
	return !e.fails(key, now, 1) && now.Sub(e.BootAt) >= bootFor && now.Sub(e.RunAt) >= phaseFor
}

// fails reports whether there were so many failures in a row, the last one not too long ago.
func (e entry) fails(key string, now time.Time, least int) bool {
	limit := placeFor
	if isHost(key) {
		limit = hostFor
	}
	return e.Failures >= least && now.Sub(e.At) < limit
}

// last returns when something was last added to the entry.
func (e entry) last() time.Time {
	return slices.MaxFunc([]time.Time{e.At, e.BootAt, e.RunAt}, time.Time.Compare)
}

const hostMark = " host "

func isHost(key string) bool { return strings.Contains(key, hostMark) }

// keyOf identifies the machines of an offer: the physical machine if the offer names one, and otherwise all of
// its instance type in its region.
func keyOf(o driver.Offer) string {
	if o.Host != "" {
		return o.Provider + hostMark + o.Host
	}
	return o.Provider + " " + o.InstanceType + " in " + o.Region
}

// A Book is the history of one state directory. It can be used concurrently, also by several programs.
type Book struct {
	path string // empty: it remembers nothing
	mu   sync.Mutex
}

// In returns the book of a state directory. It reads nothing yet. The book of "" remembers nothing.
func In(dir string) *Book {
	if dir == "" {
		return &Book{}
	}
	return &Book{path: filepath.Join(dir, "history.json")}
}

// Failed adds that a machine of an offer did not come up, or was not what the offer promised.
func (b *Book) Failed(o driver.Offer, why error) error {
	reason := strings.Join(strings.Fields(printable.Text(why.Error())), " ")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "..."
	}
	return b.change(func(all map[string]entry, now time.Time) {
		key := keyOf(o)
		e := all[key]
		if !e.fails(key, now, 1) {
			e.Failures = 0
		}
		e.Failures, e.At, e.Reason = e.Failures+1, now, reason
		all[key] = e
	})
}

// Booted adds that a machine of an offer came up, and how long that took. Its earlier failures no longer count.
func (b *Book) Booted(o driver.Offer, took time.Duration) error {
	return b.change(func(all map[string]entry, now time.Time) {
		all[keyOf(o)] = entry{Boot: took.Round(time.Second), BootAt: now}
	})
}

// Forget removes what is known of the failures of machines of these offers, or of all machines.
func (b *Book) Forget(offers ...driver.Offer) error {
	return b.change(func(all map[string]entry, _ time.Time) {
		keys := slices.Collect(maps.Keys(all))
		if len(offers) > 0 {
			keys = nil
			for _, o := range offers {
				keys = append(keys, keyOf(o))
			}
		}
		for _, key := range keys {
			if e, known := all[key]; known {
				e.Failures, e.At, e.Reason = 0, time.Time{}, ""
				all[key] = e
			}
		}
	})
}

// change reads the file, changes its entries, and replaces it.
func (b *Book) change(f func(all map[string]entry, now time.Time)) error {
	if b.path == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(b.path), 0o700); err != nil {
		return b.fail(err)
	}
	lock := flock.New(b.path+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockWithin)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil { // what is lost by that is a hint
		return b.fail(err)
	}
	defer lock.Unlock()
	all, err := b.read()
	if err != nil {
		all = map[string]entry{} // what cannot be read is begun anew
	}
	now := time.Now()
	f(all, now)
	maps.DeleteFunc(all, func(key string, e entry) bool { return e.isOver(key, now) })
	if extra := len(all) - maxEntries; extra > 0 {
		oldest := slices.SortedFunc(maps.Keys(all), func(x, y string) int {
			return cmp.Or(all[x].last().Compare(all[y].last()), strings.Compare(x, y))
		})
		for _, key := range oldest[:extra] {
			delete(all, key)
		}
	}
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return b.fail(err)
	}
	return b.fail(replace(b.path, text))
}

// replace writes a file whole, or not at all.
func replace(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".history-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// read returns the entries of the file. A file that does not exist has none.
func (b *Book) read() (map[string]entry, error) {
	all := map[string]entry{}
	if b.path == "" {
		return all, nil
	}
	text, err := private.ReadFile(b.path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil || all == nil {
		return nil, errors.Join(err, errors.New("it is not a file of gputrain"))
	}
	return all, nil
}

func (b *Book) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the history of machines in %s: %w", b.path, err)
}

// A Page is the history as it was when it was read. Its zero value is empty.
type Page struct {
	all map[string]entry
	now time.Time
}

// Read returns the history as it is now. The page is empty beside an error.
func (b *Book) Read() (Page, error) {
	all, err := b.read()
	if err != nil {
		return Page{}, b.fail(err)
	}
	return Page{all, time.Now()}, nil
}

// Failure returns why machines of an offer are to be avoided, or "".
func (p Page) Failure(o driver.Offer) string {
	key := keyOf(o)
	e, least := p.all[key], placeFailures
	if isHost(key) {
		least = 1
	}
	if !e.fails(key, p.now, least) {
		return ""
	}
	return fmt.Sprintf("%v ago: %s", p.now.Sub(e.At).Round(time.Minute), e.Reason)
}

// Boot returns how long the last machine of an offer took to come up, or 0 if that is unknown.
func (p Page) Boot(o driver.Offer) time.Duration {
	if e := p.all[keyOf(o)]; p.now.Sub(e.BootAt) < bootFor {
		return e.Boot
	}
	return 0
}
