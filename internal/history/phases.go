package history

import (
	"slices"
	"time"
)

const phaseMark = "phase "

// Ran adds how long a phase took, by what identifies its work.
func (b *Book) Ran(phase string, took time.Duration) error {
	return b.change(func(all map[string]entry, now time.Time) {
		e := all[phaseMark+phase]
		e.Runs = append(e.Runs[max(len(e.Runs)-phaseRuns+1, 0):], took)
		e.RunAt = now
		all[phaseMark+phase] = e
	})
}

// Usual returns how long a phase usually takes, or 0 if that is unknown.
func (b *Book) Usual(phase string) (time.Duration, error) {
	p, err := b.Read()
	return p.usual(phase), err
}

// usual returns the median of the last runs of a phase, or 0 if it is unknown.
func (p Page) usual(phase string) time.Duration {
	e := p.all[phaseMark+phase]
	if len(e.Runs) == 0 || p.now.Sub(e.RunAt) >= phaseFor {
		return 0
	}
	return slices.Sorted(slices.Values(e.Runs))[(len(e.Runs)-1)/2]
}
