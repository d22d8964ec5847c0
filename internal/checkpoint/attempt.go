package checkpoint

import "sync"

// An attempt at the task has made some of the checkpoints that are here. Others are of earlier ones.
type attempt struct {
	mu      sync.Mutex
	keep    int             // Config.Keep
	mine    map[string]bool // those that it has made
	reached int64           // the greatest step that it has reported, or -1
}

// begin begins another attempt. What is here is of earlier ones.
func (a *attempt) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mine, a.reached = map[string]bool{}, -1
}

// Reported notes that the attempt has reported a step, in its own words: the name of a checkpoint is no report.
func (a *attempt) Reported(step int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached = max(a.reached, step)
}

func (a *attempt) made(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mine[name] = true
}

func (a *attempt) isMine(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mine[name]
}

// old returns those of the checkpoints here, oldest first, that are not to be kept. A node can give any names to what it makes. So
// only what this attempt has made gives way to whatever has come later. What is of earlier attempts gives way once as many that have
// come later, and are of greater steps, as are kept are of steps that this attempt has reported, and it has made one of these.
func (a *attempt) old(whole []record) (old []record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range max(len(whole)-a.keep, 0) {
		newer, own := 0, false
		for _, r := range whole[i+1:] {
			if r.step() >= 0 && r.step() <= a.reached && r.order().compare(whole[i].order()) > 0 {
				newer, own = newer+1, own || a.mine[r.Name]
			}
		}
		if a.mine[whole[i].Name] || own && newer >= a.keep {
			old = append(old, whole[i])
		}
	}
	return old
}
