package fleet

import "time"

// A Work summarizes the tasks and visits of a fleet's members.
type Work struct {
	// Ended is when a member that now has neither tasks nor visits had one last, or became ready.
	Ended time.Time
	// Busy has the members that can take tasks, and whether they have tasks or visits.
	Busy map[*Member]bool
	// Waits is true if tasks wait.
	Waits bool
}

// WorkOf returns what runs on a fleet now. The lock is held.
func WorkOf(f *Fleet) Work {
	w := Work{Busy: map[*Member]bool{}}
	running := 0
	for _, m := range f.roster.members {
		running += m.Slots.Busy()
		if m.idleSince.After(w.Ended) {
			w.Ended = m.idleSince
		}
		if m.state.Works() {
			w.Busy[m] = m.Slots.Busy() > 0 || m.visits > 0
		}
	}
	d := f.Tasks.Demand()
	all := d.Tasks
	for _, tasks := range d.Units {
		all += tasks
	}
	w.Waits = all > running
	return w
}
