package status

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// A pipe is a client in memory that reads everything at once, for a fake clock.
type pipe struct {
	mu     sync.Mutex
	header http.Header
	code   int
	text   bytes.Buffer
}

func (p *pipe) Header() http.Header { return p.header }
func (p *pipe) WriteHeader(code int) {
	p.code = code
}
func (p *pipe) Flush() {}
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// follow opens a stream that lasts until ctx ends.
func follow(ctx context.Context, h http.Handler, lastEventID string) (*pipe, chan struct{}) {
	q := httptest.NewRequestWithContext(ctx, "GET", "/events", nil)
	if lastEventID != "" {
		q.Header.Set("Last-Event-ID", lastEventID)
	}
	p, done := &pipe{header: http.Header{}}, make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(p, q)
	}()
	return p, done
}

// A message is one event of a stream, or a comment.
type message struct{ id, event, data, comment string }

func (p *pipe) messages() []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return messagesOf(p.text.String())
}

func messagesOf(text string) []message {
	var all []message
	for block := range strings.SplitSeq(text, "\n\n") {
		var m message
		for l := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(l, ": ")
			switch name {
			case "id":
				m.id = value
			case "event":
				m.event = value
			case "data":
				m.data = value
			case "":
				m.comment = value
			}
		}
		if m != (message{}) {
			all = append(all, m)
		}
	}
	return all
}

// A client knows what a page knows: the parts of each list by their keys.
type client struct {
	seq   string
	parts map[section]map[string]string
}

var clientKeys = map[section][]string{
	pools: {"id"}, nodes: {"key"}, tasks: {"pool", "id"}, groups: {"pool", "name"}, phases: {"pool", "node", "name", "began"},
	transfers: {"pool", "node", "task", "what", "began"}, failures: {"seq", "kind"}, offers: {"pool", "provider", "instanceType", "region", "at"},
}

// take applies events as page.js does.
func (c *client) take(t *testing.T, all []message) {
	t.Helper()
	for _, m := range all {
		if m.event == "" || m.event == "end" { // which has no data, and no ID: the last one stays
			continue
		}
		if m.event == "run" {
			c.parts = map[section]map[string]string{}
		}
		c.seq = m.id
		var lists map[section]json.RawMessage
		if err := json.Unmarshal([]byte(m.data), &lists); err != nil {
			t.Fatalf("%v: %.200s", err, m.data)
		}
		var gone map[section][]string
		if lists["gone"] != nil {
			if err := json.Unmarshal(lists["gone"], &gone); err != nil {
				t.Fatal(err)
			}
		}
		for s, fields := range clientKeys {
			if c.parts[s] == nil {
				c.parts[s] = map[string]string{}
			}
			for _, key := range gone[s] {
				delete(c.parts[s], key)
			}
			var items []json.RawMessage
			if lists[s] != nil {
				if err := json.Unmarshal(lists[s], &items); err != nil {
					t.Fatal(err)
				}
			}
			for _, item := range items {
				var values map[string]any
				if err := json.Unmarshal(item, &values); err != nil {
					t.Fatal(err)
				}
				var key []string
				for _, f := range fields {
					if v := values[f]; v == nil {
						key = append(key, "")
					} else {
						key = append(key, fmt.Sprint(v))
					}
				}
				c.parts[s][strings.Join(key, "\n")] = string(item)
			}
		}
	}
}

// check compares what a client knows with a whole Run.
func (c *client) check(t *testing.T, r observe.Run) {
	t.Helper()
	var text bytes.Buffer
	out := bufio.NewWriter(&text)
	if err := writeRun(out, r, part{summary: true}); err != nil {
		t.Fatal(err)
	}
	out.Flush()
	var want client
	want.take(t, []message{{event: "run", id: strconv.FormatInt(r.Seq, 10), data: text.String()}})
	if c.seq != want.seq {
		t.Errorf("the client has Run %s, want %s", c.seq, want.seq)
	}
	for s := range clientKeys {
		if !maps.Equal(c.parts[s], want.parts[s]) {
			for key, part := range want.parts[s] {
				if c.parts[s][key] != part {
					t.Errorf("%s %q is\n%s, want\n%s", s, key, c.parts[s][key], part)
					break
				}
			}
			t.Errorf("the client has %d %s, want %d", len(c.parts[s]), s, len(want.parts[s]))
		}
	}
}

// mutate changes something in a Run, as a recorder does: what it had is not changed.
func mutate(rng *rand.Rand, r *observe.Run) {
	r.At = r.At.Add(37 * time.Millisecond)
	r.SpentUSD += 0.001
	switch i := rng.IntN(8); i {
	case 0, 1:
		r.Tasks = slices.Clone(r.Tasks)
		t := &r.Tasks[rng.IntN(len(r.Tasks))]
		t.State, t.Started, t.Attempt = "started", r.At, t.Attempt+1
	case 2:
		r.Tasks = slices.Clone(r.Tasks)
		t := &r.Tasks[rng.IntN(len(r.Tasks))]
		t.Step.N, t.StepAt = t.Step.N+1, r.At
	case 3:
		t := r.Tasks[0]
		t.ID, t.State, t.Queued = fmt.Sprintf("n%d", r.Seq), "queued", r.At
		r.Tasks = append(slices.Clone(r.Tasks[1:]), t) // the oldest is not kept
	case 4:
		r.Nodes = slices.Clone(r.Nodes)
		n := &r.Nodes[rng.IntN(len(r.Nodes))]
		n.State, n.Since = []string{"ready", "unreachable", "lost"}[rng.IntN(3)], r.At
	case 5:
		r.Failures = append(slices.Clone(r.Failures), observe.Failure{Seq: r.Seq, At: r.At, Kind: "node", Rank: 1, Err: "lost"})
	case 6:
		r.Transfers = slices.Clone(r.Transfers)
		r.Transfers[0].Bytes, r.Transfers[0].At = r.Transfers[0].Bytes+4096, r.At
	case 7:
		r.Phases = slices.Clone(r.Phases)
		r.Phases[1].Progress.Done++
	}
}

func TestAStreamIsARunAndThenUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake(starting(aRun(3, 50, time.Now())))
		p, done := follow(ctx, newHandler(f), "")
		rng := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			f.change(func(r *observe.Run) { mutate(rng, r) })
		}
		time.Sleep(time.Second)
		all := p.messages()
		if all[0].event != "run" || all[0].id != "1000" {
			t.Errorf("the first event is %q of %q", all[0].event, all[0].id)
		}
		for _, m := range all[1:] {
			if m.event != "update" || len(m.data) > 20_000 {
				t.Errorf("got %q of %d bytes", m.event, len(m.data))
			}
		}
		if n := len(all); n > 1+22 || n < 15 { // 10 seconds of changes
			t.Errorf("got %d events", n)
		}
		var c client
		c.take(t, all)
		c.check(t, f.Run())
		if p.header.Get("Content-Type") != "text/event-stream" || p.header.Get("X-Accel-Buffering") != "no" || p.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the header is %v", p.header)
		}
		cancel()
		<-done
	})
}

// A client that is cut off again and again, at any byte, misses nothing.
func TestLastEventIDMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(starting(aRun(3, 50, time.Now())))
		h := newHandler(f)
		rng := rand.New(rand.NewPCG(3, 4))
		var c client
		whole := 0
		for range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			p, done := follow(ctx, h, c.seq)
			for range rng.IntN(30) {
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				f.change(func(r *observe.Run) { mutate(rng, r) })
			}
			cancel()
			<-done
			text := p.text.String()
			text = text[:rng.IntN(len(text)+1)]
			text = text[:strings.LastIndex("\n\n"+text, "\n\n")] // a browser drops an event without its end
			got := messagesOf(text)
			for _, m := range got {
				if m.event == "run" {
					whole++
				}
			}
			c.take(t, got)
			for range rng.IntN(5) { // while it is away
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
				f.change(func(r *observe.Run) { mutate(rng, r) })
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		p, done := follow(ctx, h, c.seq)
		time.Sleep(2 * time.Second)
		cancel()
		<-done
		c.take(t, p.messages())
		c.check(t, f.Run())
		if whole > 5 {
			t.Errorf("it was sent the whole run %d times", whole)
		}
	})
}

func TestLastEventIDThatIsNotKnown(t *testing.T) {
	for _, id := range []string{"999", "1001", "99999999999999999999", "-1", "x", "0"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p, done := follow(ctx, newHandler(newFake(aRun(1, 4, time.Now()))), id)
			synctest.Wait()
			if all := p.messages(); len(all) != 1 || all[0].event != "run" || all[0].id != "1000" {
				t.Errorf("after %q the client gets %+v", id, all)
			}
			cancel()
			<-done
		})
	}
}

// What is not kept any more is told to a client that was away, and if too much is, it gets the whole run.
func TestUpdatesSayWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(aRun(1, 100, time.Now()))
		h := newHandler(f)
		v := h.feed.view(updatePause)
		for round := range 3 {
			time.Sleep(time.Second)
			f.change(func(r *observe.Run) {
				kept := aRun(1, keptGone, r.At).Tasks
				for i := range kept {
					kept[i].ID = fmt.Sprintf("%d-%d", round, i)
				}
				r.Tasks = kept
			})
			h.feed.view(updatePause)
		}
		time.Sleep(time.Second)
		now := h.feed.view(updatePause)
		if _, known := now.after(v.run.Seq); known {
			t.Error("what has changed is known though too much is gone")
		}
		if p, known := now.after(now.run.Seq - 1); !known || len(p.gone[tasks]) != keptGone {
			t.Errorf("%d tasks are gone, want %d", len(p.gone[tasks]), keptGone)
		}
		if len(now.gone) > keptGone {
			t.Errorf("it keeps %d keys", len(now.gone))
		}
	})
}

func TestAQuietStreamIsKeptOpen(t *testing.T) {
	for name, ended := range map[string]bool{"recording": false, "closed recorder": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				f := newFake(aRun(1, 4, time.Now()))
				if ended {
					f.close()
				}
				p, done := follow(ctx, newHandler(f), "")
				time.Sleep(4*keepAlive + time.Second)
				comments := 0
				ends := 0
				for _, m := range p.messages()[1:] {
					switch {
					case m.event == "end":
						ends++
					case m.comment == "":
						t.Errorf("got %+v", m)
					default:
						comments++
					}
				}
				if ended != (ends == 1) {
					t.Errorf("got %d ends", ends)
				}
				if comments != 4 {
					t.Errorf("got %d comments in %v", comments, 4*keepAlive)
				}
				if f.asked > 3 {
					t.Errorf("it took %d Runs though nothing happened", f.asked)
				}
				cancel()
				<-done
			})
		})
	}
}

// Many streams take as many Runs as one.
func TestStreamsShareRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake(aRun(1, 4, time.Now()))
		h := newHandler(f)
		var all []chan struct{}
		for range maxStreams {
			_, done := follow(ctx, h, "")
			all = append(all, done)
		}
		synctest.Wait()
		over, overDone := follow(ctx, h, "")
		<-overDone
		if over.code != http.StatusServiceUnavailable || over.header.Get("Retry-After") == "" {
			t.Errorf("one stream too many is answered by %d", over.code)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			f.change(func(r *observe.Run) { r.SpentUSD++ })
		}
		if f.asked > 30 {
			t.Errorf("%d streams took %d Runs in 10 seconds", maxStreams, f.asked)
		}
		cancel()
		for _, done := range all {
			<-done
		}
		ctx, cancel = context.WithCancel(t.Context())
		p, done := follow(ctx, h, "")
		synctest.Wait()
		if len(p.messages()) != 1 {
			t.Error("streams that have ended count")
		}
		cancel()
		<-done
	})
}

func TestASlowReaderIsCutOff(t *testing.T) {
	f := newFake(aRun(50, 20_000, time.Now())) // more than the buffers of a connection have room for
	h := newHandler(f)
	h.writeTimeout = 100 * time.Millisecond
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, q)
	}))
	defer s.Close()
	r, err := http.Get(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
	text, err := io.ReadAll(r.Body)
	if err == nil || errors.Is(err, io.EOF) || strings.HasSuffix(string(text), "\n\n") {
		t.Errorf("the client got all %d bytes, and %v", len(text), err)
	}
}
