package transfer

import (
	"sync"
	"time"
)

const (
	// A transfer that lasts less than reportDelay is not reported.
	reportDelay = time.Second
	// reportPause is the time between two reports of a transfer.
	reportPause = 500 * time.Millisecond
)

// A Report is how far a transfer has come.
type Report struct {
	// Bytes have moved, of Total, which is zero if it is not known.
	Bytes, Total int64
	// PerSecond is the rate since the last report; in the last report it is that of the whole transfer.
	PerSecond float64
	// Elapsed is how long the transfer has lasted.
	Elapsed time.Duration
	// Over is true for the last report, and Failed if the transfer has failed.
	Over, Failed bool
}

// A reporter makes the reports of one transfer.
type reporter struct {
	told func(Report)

	mu        sync.Mutex
	now       Report
	began, at time.Time
	moved     int64 // at the last report
	shown     bool
}

// Reporting returns a Progress, and a function to call at the end of the transfer with its error. told is called, never
// concurrently, with how far the transfer is: twice a second at most once it has lasted a second, and then at its end.
func Reporting(told func(Report)) (Progress, func(error)) {
	now := time.Now()
	r := &reporter{told: told, began: now, at: now}
	return r.progress, r.end
}

func (r *reporter) progress(done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.now.Bytes, r.now.Total = done, total
	if now.Sub(r.began) < reportDelay || r.shown && now.Sub(r.at) < reportPause {
		return
	}
	r.report(now, max(done-r.moved, 0), now.Sub(r.at))
	r.at, r.moved, r.shown = now, done, true
}

// end reports the end of a transfer that was reported before.
func (r *reporter) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.shown {
		return
	}
	r.now.Over, r.now.Failed = true, err != nil
	now := time.Now()
	r.report(now, r.now.Bytes, now.Sub(r.began))
}

// report makes a report, with the rate of so many bytes in a time. r.mu is held.
func (r *reporter) report(now time.Time, bytes int64, took time.Duration) {
	r.now.Elapsed, r.now.PerSecond = now.Sub(r.began), 0
	if took > 0 {
		r.now.PerSecond = float64(bytes) / took.Seconds()
	}
	r.told(r.now)
}
