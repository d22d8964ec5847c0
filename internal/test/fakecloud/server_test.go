package fakecloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const keysPath = "/api/v1/ssh-keys"

type key struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	PublicKey string `json:"public_key"`
}

// keyServer is a fake of a cloud's SSH keys. It has no images, which the description has.
func keyServer(t *testing.T) (*Server, *Store[key], *witness) {
	w := &witness{TB: t}
	s := Start(w, Config{
		Contracts:  []Contract{OpenAPI(t, "testdata/keys.json"), Unchecked("GET /health", "GET /nobody")},
		Authorized: Bearer("sk-test"),
		Public:     []string{"GET /health"},
		Unauthorized: Reply(401, map[string]any{"error": map[string]string{
			"code": "global/invalid-api-key", "message": "API key was invalid, expired, or deleted.", "suggestion": "Check your API key."}}),
	})
	keys := NewStore[key](s)
	s.Handle("GET "+keysPath, func(c *Call) Answer { return Reply(200, map[string]any{"data": keys.All(c)}) })
	s.Handle("POST "+keysPath, func(c *Call) Answer {
		var k key
		c.Decode(&k)
		k.ID = "k" + strconv.Itoa(c.N)
		keys.Put(c, k.ID, k)
		return Reply(200, map[string]any{"data": k})
	})
	s.Handle("DELETE "+keysPath+"/{id}", func(c *Call) Answer {
		keys.Delete(c, c.Vars["id"])
		return Reply(200, map[string]any{"data": map[string]any{}})
	})
	s.Handle("GET /health", func(*Call) Answer { return Reply(200, "ok") })
	return s, keys, w
}

// send sends a request with the right key.
func send(ctx context.Context, s *Server, method, path, body string) (int, string, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	r.Header.Set("Authorization", "Bearer sk-test")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header, err
}

func status(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	code, text, _, err := send(t.Context(), s, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return code, text
}

const newKeyBody = `{"name":"gputrain-1","public_key":"ssh-ed25519 AAAA"}`

func TestServerKeepsState(t *testing.T) {
	s, keys, w := keyServer(t)
	if code, body := status(t, s, "POST", keysPath, newKeyBody); code != 200 || !strings.Contains(body, `"id":"k1"`) {
		t.Fatalf("%d %s", code, body)
	}
	if code, body := status(t, s, "GET", keysPath, ""); code != 200 || body != `{"data":[{"id":"k1","name":"gputrain-1","public_key":"ssh-ed25519 AAAA"}]}` {
		t.Errorf("%d %s", code, body)
	}
	status(t, s, "DELETE", keysPath+"/k1", "")
	if _, body := status(t, s, "GET", keysPath, ""); body != `{"data":[]}` {
		t.Errorf("after the end: %s", body)
	}
	s.Do(func() { keys.Put(nil, "k9", key{ID: "k9", Name: "n", PublicKey: "p"}) })
	if _, body := status(t, s, "GET", keysPath, ""); !strings.Contains(body, "k9") {
		t.Errorf("the answer lacks the key that the test has added: %s", body)
	}
	w.saw(t)

	records := s.Records("POST "+keysPath, "DELETE "+keysPath+"/{id}")
	if len(records) != 2 || records[0].Body != newKeyBody || records[0].Status != 200 || records[1].Path != keysPath+"/k1" || records[1].N != 3 {
		t.Errorf("recorded: %+v", records)
	}
	if n := len(s.Records()); n != 5 {
		t.Errorf("%d requests are recorded", n)
	}
}

func TestServerRefuses(t *testing.T) {
	s, keys, w := keyServer(t)
	for _, tr := range []struct {
		method, path, body string
		status             int
		complaint          string
	}{
		{"POST", keysPath, `{"nam":"k"}`, 400, "/nam: unknown field"},
		{"GET", "/api/v1/ssh-keyz", "", 404, "unknown path"},
		{"GET", keysPath + "?page=2", "", 400, "unknown query parameter page"},
		{"GET", "/api/v1/images", "", 404, "no handler"},
	} {
		code, body := status(t, s, tr.method, tr.path, tr.body)
		if code != tr.status || !strings.Contains(body, tr.complaint) {
			t.Errorf("%s %s: %d %s", tr.method, tr.path, code, body)
		}
		w.saw(t, "does not allow the request", tr.complaint)
	}
	s.Do(func() {
		if n := len(keys.All(nil)); n != 0 {
			t.Errorf("a call that was refused made %d keys", n)
		}
	})

	s.Handle("GET "+keysPath, func(*Call) Answer { return Reply(200, map[string]any{"keys": nil}) })
	if code, _ := status(t, s, "GET", keysPath, ""); code != 500 {
		t.Errorf("an answer that is not allowed is sent with %d", code)
	}
	w.saw(t, "does not allow the fake's answer", "/keys: unknown field")
}

func TestHandlerPanics(t *testing.T) {
	s, _, w := keyServer(t)
	s.Handle("GET "+keysPath, func(*Call) Answer { panic("no such key") })
	for range 2 { // the second call shows that the first left no lock behind
		if code, _ := status(t, s, "GET", keysPath, ""); code != 500 {
			t.Errorf("status %d", code)
		}
	}
	w.saw(t, "GET "+keysPath, "no such key", "server_test.go")
}

func TestServerWantsTheKey(t *testing.T) {
	s, _, w := keyServer(t)
	for _, auth := range []string{"", "Bearer wrong"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+keysPath, nil)
		r.Header.Set("Authorization", auth)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 401 || !strings.Contains(string(b), "global/invalid-api-key") {
			t.Errorf("with %q: %d %s", auth, resp.StatusCode, b)
		}
	}
	resp, err := http.Get(s.URL + "/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("a public operation without a key: %d", resp.StatusCode)
	}
	w.saw(t)
}

func TestAuthorized(t *testing.T) {
	r, _ := http.NewRequest("GET", "/", nil)
	r.SetBasicAuth("user", "pass")
	c := &Call{Header: r.Header}
	if !Basic("user", "pass")(c) || Basic("user", "other")(c) || Bearer("pass")(c) {
		t.Error("Basic accepts wrong credentials")
	}
	r.Header.Set("X-Auth-Token", "k")
	if !KeyHeader("X-Auth-Token", "k")(c) || KeyHeader("X-Auth-Token", "K")(c) {
		t.Error("KeyHeader accepts a wrong key")
	}
}

func TestServerKnowsItsOperations(t *testing.T) {
	w := &witness{TB: t}
	s := Start(w, Config{Contracts: []Contract{Unchecked("GET /health")}})
	fatal := &fatalWitness{witness: w}
	s.t = fatal
	s.Handle("GET /helth", nil)
	if fatal.why == "" {
		t.Error("Handle accepts an operation that no contract has")
	}
}

// Every operation of a description has a handler when the test ends.
func TestServerHandlesItsOperations(t *testing.T) {
	w := &witness{TB: t}
	s := Start(w, Config{Contracts: []Contract{OpenAPI(t, "testdata/keys.json")}})
	none := func(*Call) Answer { return Answer{} }
	for _, op := range []string{"GET " + keysPath, "POST " + keysPath, "DELETE " + keysPath + "/{id}"} {
		s.Handle(op, none)
	}
	s.unhandled()
	if len(w.failures) != 1 {
		t.Errorf("it complains of %q", w.failures)
	}
	w.saw(t, "GET /api/v1/images, and the fake does not handle it")
	s.Handle("GET /api/v1/images", none)
	s.unhandled()
	w.saw(t)
}

// A fatalWitness records Fatalf and continues.
type fatalWitness struct {
	*witness
	why string
}

func (w *fatalWitness) Fatalf(format string, _ ...any) { w.why = format }

func TestServerInParallel(t *testing.T) {
	s, keys, w := keyServer(t)
	s.Inject(Fault{Op: "GET*", Times: -1, Lag: Lag{Calls: 3}})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for _, r := range [][2]string{{"POST", newKeyBody}, {"GET", ""}} {
				if code, body, _, err := send(t.Context(), s, r[0], keysPath, r[1]); err != nil || code != 200 {
					t.Errorf("%d %s %v", code, body, err)
				}
			}
		})
	}
	wg.Wait()
	s.Do(func() {
		if n := len(keys.All(nil)); n != 20 {
			t.Errorf("%d keys", n)
		}
	})
	w.saw(t)
}

func TestFaultAnswers(t *testing.T) {
	s, keys, w := keyServer(t)
	count := func() (n int) {
		s.Do(func() { n = len(keys.All(nil)) })
		return n
	}
	const op = "POST " + keysPath

	in := s.Inject(Fault{Op: op, Skip: 1, Times: 2, Answer: Failure(429, "slow down", "7")})
	var got []string
	for range 4 {
		code, _, h, err := send(t.Context(), s, "POST", keysPath, newKeyBody)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strconv.Itoa(code)+h.Get("Retry-After"))
	}
	if strings.Join(got, " ") != "200 4297 4297 200" || count() != 2 || in.Hits() != 2 {
		t.Errorf("skip 1, times 2: %v, %d keys, %d hits", got, count(), in.Hits())
	}

	s.Inject(Fault{Op: op, After: true, Answer: Failure(503, map[string]string{"error": "later"}, "")})
	code, body, h, err := send(t.Context(), s, "POST", keysPath, newKeyBody)
	if err != nil || code != 503 || body != `{"error":"later"}` || h.Get("Retry-After") != "" || count() != 3 {
		t.Errorf("after the effect: %d %s %v, %d keys", code, body, err, count())
	}

	forever := s.Inject(Fault{Op: "POST *", Times: -1, Answer: Failure(500, nil, "")})
	for range 3 {
		if code, _ := status(t, s, "POST", keysPath, newKeyBody); code != 500 {
			t.Errorf("for ever: %d", code)
		}
	}
	forever.Remove()
	if code, _ := status(t, s, "POST", keysPath, newKeyBody); code != 200 {
		t.Errorf("after Remove: %d", code)
	}

	for name, want := range map[string]struct {
		answer Answer
		holds  func(body, kind string) bool
	}{
		"garbage": {Garbage(), func(b, _ string) bool { return strings.Contains(b, "\xff") }},
		"HTML":    {HTML(), func(b, k string) bool { return strings.HasPrefix(b, "<!DOCTYPE") && k == "text/html" }},
		"empty":   {Empty(), func(b, k string) bool { return b == "" && k == "application/json" }},
		"huge":    {Huge(1 << 20), func(b, _ string) bool { return len(b) == 1<<20 && bytes.HasSuffix([]byte(b), []byte(`x"`)) }},
	} {
		s.Inject(Fault{Answer: want.answer})
		code, body, h, err := send(t.Context(), s, "GET", keysPath, "")
		if err != nil || code != 200 || !want.holds(body, h.Get("Content-Type")) {
			t.Errorf("%s: %d %.80q %v", name, code, body, err)
		}
	}
	w.saw(t)
}

func TestFaultCuts(t *testing.T) {
	s, keys, _ := keyServer(t)
	for after, want := range map[bool]int{false: 0, true: 1} {
		s.Inject(Fault{Op: "POST*", After: after, Cut: true})
		if _, _, _, err := send(t.Context(), s, "POST", keysPath, newKeyBody); !errors.Is(err, io.EOF) {
			t.Errorf("cut after the effect %v: %v", after, err)
		}
		s.Do(func() {
			if n := len(keys.All(nil)); n != want {
				t.Errorf("cut after the effect %v: %d keys", after, n)
			}
			for _, k := range keys.All(nil) {
				keys.Delete(nil, k.ID)
			}
		})
	}
	for _, r := range s.Records() {
		if r.Status != 0 {
			t.Errorf("a call that was cut is recorded as answered with %d", r.Status)
		}
	}
}

func TestFaultHolds(t *testing.T) {
	s, keys, _ := keyServer(t)
	release := make(chan struct{})
	in := s.Inject(Fault{Op: "POST*", Hold: release})
	done := make(chan int)
	go func() {
		code, _, _, _ := send(t.Context(), s, "POST", keysPath, newKeyBody)
		done <- code
	}()
	<-in.Reached()
	s.Do(func() {
		if len(keys.All(nil)) != 0 {
			t.Error("a call that is held before its effect has taken effect")
		}
	})
	close(release)
	if code := <-done; code != 200 {
		t.Errorf("a call that was released: %d", code)
	}

	// A caller that gives up leaves no effect, unless the handler had already run.
	for _, after := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		in := s.Inject(Fault{Op: "POST*", After: after, Hold: make(chan struct{})})
		go func() {
			<-in.Reached()
			cancel()
		}()
		if _, _, _, err := send(ctx, s, "POST", keysPath, newKeyBody); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that gave up got %v", err)
		}
	}
	s.Do(func() {
		if n := len(keys.All(nil)); n != 2 {
			t.Errorf("%d keys, although one of three calls was given up before its effect", n)
		}
	})

	// A call that is still held at the end of the test does not keep the test from ending.
	in = s.Inject(Fault{Op: "GET*", Hold: make(chan struct{})})
	go send(context.WithoutCancel(t.Context()), s, "GET", keysPath, "")
	<-in.Reached()
}

func TestFaultLags(t *testing.T) {
	s, keys, _ := keyServer(t)
	list := func() int {
		_, body := status(t, s, "GET", keysPath, "")
		return strings.Count(body, `"id"`)
	}
	status(t, s, "POST", keysPath, newKeyBody) // call 1
	status(t, s, "POST", keysPath, newKeyBody) // call 2
	s.Inject(Fault{Op: "GET*", Times: 2, Lag: Lag{Calls: 1}})
	if n := list(); n != 1 { // call 3 does not see call 2
		t.Errorf("one call behind: %d keys", n)
	}
	status(t, s, "DELETE", keysPath+"/k1", "") // call 4
	if n := list(); n != 2 {                   // call 5 does not see call 4
		t.Errorf("one call behind an end: %d keys", n)
	}
	if n := list(); n != 1 {
		t.Errorf("up to date: %d keys", n)
	}
	s.Inject(Fault{Op: "GET*", Lag: Lag{For: time.Hour}})
	if n := list(); n != 0 {
		t.Errorf("an hour behind: %d keys", n)
	}
	s.Do(func() {
		if keys.Delete(nil, "k1") || !keys.Delete(nil, "k2") {
			t.Error("Delete reports wrongly whether the object existed")
		}
	})
}

// A handler learns that it must do nothing, or find nothing. If it does not ask, the test fails.
func TestFaultThatTheHandlerObeys(t *testing.T) {
	s, keys, w := keyServer(t)
	const op = "POST " + keysPath
	s.Inject(Fault{Op: op, Undone: true})
	status(t, s, "POST", keysPath, newKeyBody)
	w.saw(t, "a fault is Undone or Missing, and the handler looks at neither")

	var told []string
	s.Handle(op, func(c *Call) Answer {
		told = append(told, fmt.Sprint(c.Undone(), c.Missing()))
		return Undescribed(200, nil)
	})
	s.Inject(Fault{Op: op, Undone: true})
	s.Inject(Fault{Op: op, Missing: true})
	for range 3 {
		status(t, s, "POST", keysPath, newKeyBody)
	}
	if got := strings.Join(told, ", "); got != "true false, false true, false false" {
		t.Errorf("the handler got %s", got)
	}
	s.Do(func() {
		if n := len(keys.All(nil)); n != 1 {
			t.Errorf("%d keys", n)
		}
	})
	w.saw(t)
}
