package gputrain

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A transfer is reported after a second, then twice a second at most, and at its end. Shorter ones are not reported.
func TestTransferEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Event
		e := newEvents("p-1", []func(Event){func(ev Event) { told = append(told, ev) }}, nil)
		began := time.Now()
		progress, end := e.transfer(Event{Node: 3, State: "sending", Path: "data"})
		for i := range int64(20) { // 10 bytes in each tenth of a second
			time.Sleep(100 * time.Millisecond)
			progress(10*(i+1), 500)
		}
		progress(5, 500) // it starts again
		time.Sleep(500 * time.Millisecond)
		progress(15, 500)
		end(nil)
		for range 2 {
			progress, end = e.transfer(Event{})
			progress(7, 0)
			time.Sleep(900 * time.Millisecond)
			progress(8, 0)
			end(errors.New("cut"))
		}
		e.close()
		type seen struct {
			state       string
			bytes       int64
			rate        float64
			since, took time.Duration
		}
		var got []seen
		for _, ev := range told {
			if ev.Kind != EventTransfer || ev.Pool != "p-1" || ev.Node != 3 || ev.Path != "data" || ev.TotalBytes != 500 || ev.Err != nil {
				t.Errorf("%+v", ev)
			}
			got = append(got, seen{ev.State, ev.Bytes, ev.BytesPerSecond, ev.Time.Sub(began), ev.Elapsed})
		}
		const tenth = 100 * time.Millisecond
		want := []seen{
			{"sending", 100, 100, 10 * tenth, 10 * tenth}, {"sending", 150, 100, 15 * tenth, 15 * tenth}, {"sending", 200, 100, 20 * tenth, 20 * tenth},
			{"sending", 15, 0, 25 * tenth, 25 * tenth}, {"done", 15, 6, 25 * tenth, 25 * tenth},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

// A slow function for events holds no transfer up, and a pool without one measures nothing.
func TestTransferEventsHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := newEvents("p", []func(Event){func(Event) { time.Sleep(time.Hour) }}, nil)
		progress, end := e.transfer(Event{State: "receiving"})
		for i := range int64(10) {
			time.Sleep(time.Second)
			progress(i, 0)
		}
		end(errors.New("cut"))
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		e.close()
		if progress, end := newEvents("p", nil, nil).transfer(Event{}); progress != nil {
			t.Error("progress that no one sees")
		} else {
			end(nil)
		}
	})
}

// How far a transfer is has level debug. Its end is told like other events, and trouble is a warning.
func TestTransferEventsInTheLog(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ev := Event{Pool: "p", Kind: EventTransfer, Node: 1, State: "receiving", Path: "out", Bytes: 5, TotalBytes: 10, BytesPerSecond: 2.5}
	ev.log(l)
	ev.State, ev.Bytes, ev.TotalBytes = "done", 10, 0
	ev.log(l)
	Event{Pool: "p", Kind: EventTransfer, State: "failed", Task: "t1", Err: errors.New("no room")}.log(l)
	lines := strings.Split(b.String(), "\n")
	for i, want := range [][]string{
		{"level=DEBUG", "msg=transfer", "rank=1", "state=receiving", "path=out", "bytes=5", "totalBytes=10", "bytesPerSecond=2"},
		{"level=INFO", "state=done", "bytes=10"}, {"level=WARN", "task=t1", `error="no room"`},
	} {
		for _, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%q lacks %s", lines[i], w)
			}
		}
	}
}
