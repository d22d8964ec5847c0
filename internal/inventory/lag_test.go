package inventory

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// After an answered call lists lag. A call without an answer may have an effect later.
func TestListLag(t *testing.T) {
	const lag, late = time.Minute, 10 * time.Minute
	cut := &driver.Error{Kind: driver.ErrUnavailable, Err: errCut}
	for _, tt := range []struct {
		name string
		free bool
		err  error
		want time.Duration
		why  error
	}{
		{"answered", false, nil, lag, nil},
		{"refused", false, &driver.Error{Kind: driver.ErrQuota}, lag, nil},
		{"not answered", false, cut, late + lag, errCut},
		{"not answered by an engine here", true, cut, lag, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &listLag{caps: driver.Capabilities{ListLag: lag, LateEffect: late, Free: tt.free}}
			begun := time.Now()
			l.called(tt.err)
			time.Sleep(time.Second)
			l.extend(begun.Add(-time.Hour), nil) // an earlier time changes nothing
			until, why := l.reason()
			if got := until.Sub(begun); got != tt.want || !errors.Is(why, tt.why) {
				t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, why, tt.want, tt.why)
			}
			if got := l.pause(time.Hour); got != tt.want-time.Second {
				t.Errorf("%s: pauses for %v", tt.name, got)
			}
		})
	}
}

// A row of a dead program extends the list lag as the program's call would have.
func TestListLagOfADeadProgram(t *testing.T) {
	const lag, late = time.Minute, 20 * time.Minute
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, tt := range []struct {
		name string
		row  func() ledger.Row
		want time.Duration
	}{
		{"created", func() ledger.Row { return ledger.Row{Created: ago(30 * time.Second)} }, lag - 30*time.Second},
		{"created long ago", func() ledger.Row { return ledger.Row{Created: ago(time.Hour)} }, lag - time.Hour},
		{"never made", func() ledger.Row { return ledger.Row{Gone: ago(5 * time.Minute)} }, late + lag - 5*time.Minute},
		{"killed in the call", func() ledger.Row { return ledger.Row{Intended: ago(time.Minute)} }, late + lag},
		{"killed in the call long ago", func() ledger.Row { return ledger.Row{Intended: ago(time.Hour)} }, createTime - time.Hour + late + lag},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &listLag{caps: driver.Capabilities{ListLag: lag, LateEffect: late}}
			lacks := l.recall(tt.row())
			if got := time.Until(l.end()); got != tt.want || lacks != (tt.want > 0) {
				t.Errorf("%s: %v, %v; want %v", tt.name, got, lacks, tt.want)
			}
		})
	}
}
