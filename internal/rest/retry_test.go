package rest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

// deadline makes a test fail that hangs.
const deadline = 2 * time.Minute

// For each way in which an attempt can fail: the number of attempts of a read, of a create, and of an idempotent
// create.
func TestWhatIsRepeated(t *testing.T) {
	const all, maxAnswer = 3, 1 << 10
	for _, tt := range []struct {
		name                     string
		step                     step
		read, create, idempotent int
		ambiguous, answered      bool // for creates
	}{
		{"connection refused", fails(refused), all, all, all, false, true},
		{"connection reset", fails(reset), all, 1, all, true, false},
		{"closed without an answer", fails(errors.New("EOF")), all, 1, all, true, false},
		{"timeout", hangs, all, 1, all, true, false},
		{"answer breaks off", breaksOff(`{"id":"a`), all, 1, all, true, true},
		{"unknown certificate", fails(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), 1, 1, 1, false, true},
		{"invalid header", fails(errors.New("net/http: invalid header field value")), 1, 1, 1, false, true},
		{"300", replies(300, ""), 1, 1, 1, true, true},
		{"304", replies(304, ""), 1, 1, 1, true, true},
		{"400", replies(400, ""), 1, 1, 1, false, true},
		{"401", replies(401, ""), 1, 1, 1, false, true},
		{"403", replies(403, ""), 1, 1, 1, false, true},
		{"404", replies(404, ""), 1, 1, 1, false, true},
		{"408", replies(408, ""), all, 1, all, true, false},
		{"409", replies(409, ""), 1, 1, 1, false, true},
		{"429", replies(429, "slow down"), all, all, all, false, true},
		{"499", replies(499, ""), all, 1, all, true, false},
		{"500", replies(500, ""), all, 1, all, true, true},
		{"501", replies(501, ""), 1, 1, 1, true, true},
		{"502", replies(502, "<html>"), all, 1, all, true, false},
		{"503", replies(503, ""), all, 1, all, true, false},
		{"503 with Retry-After", replies(503, "", "Retry-After", "1"), all, 1, all, true, false},
		{"504", replies(504, ""), all, 1, all, true, false},
		{"200, a page", replies(200, "<html>"), all, 1, all, true, true},
		{"200, empty", replies(200, ""), all, 1, all, true, true},
		{"200, not JSON", replies(200, "API requests too frequent"), all, 1, all, true, true},
		{"200, another shape", replies(200, `[7]`), all, 1, all, true, true},
		{"200, too large", replies(200, `"`+strings.Repeat("x", maxAnswer)+`"`), 1, 1, 1, true, true},
		{"200, a refusal", replies(200, `{"success":false,"error":"no_such_ask"}`), 1, 1, 1, false, true},
		{"200, a 429", replies(200, `{"error":"slow down","status":429}`), all, all, all, false, true},
		{"200, a 503", replies(200, `{"error":"down","status":503}`), all, 1, all, true, true},
		{"429 for an hour", replies(429, "", "Retry-After", "3600"), 1, 1, 1, false, true},
	} {
		for _, call := range []struct {
			method  string
			options []Option
			want    int
		}{
			{"GET", nil, tt.read},
			{"GET", []Option{Once}, 1},
			{"HEAD", nil, tt.read},
			{"POST", []Option{Safe}, tt.read},
			{"POST", nil, tt.create},
			{"POST", []Option{Once}, 1},
			{"PUT", nil, tt.create},
			{"PATCH", nil, tt.create},
			{"POST", []Option{Idempotent}, tt.idempotent},
			{"PUT", []Option{Idempotent, Once}, 1},
			{"DELETE", nil, tt.idempotent},
		} {
			t.Run(fmt.Sprintf("%s/%s%s", tt.name, call.method, names(call.options)), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, api := scripted(t, Config{Attempts: all, Timeout: time.Second, MaxBody: maxAnswer, Fault: readFault}, tt.step)
					var out struct{ ID string }
					e := failure(t, c.Do(t.Context(), call.method, "/servers", nil, &out, call.options...))
					if got := api.attempts(); got != call.want {
						t.Errorf("%d attempts, want %d: %v", got, call.want, e)
					}
					if want := tt.ambiguous && !newOptions(call.method, call.options).safe; e.Ambiguous() != want {
						t.Errorf("Ambiguous is %v: %v", e.Ambiguous(), e)
					}
					if want := tt.answered || newOptions(call.method, call.options).safe; e.Answered() != want {
						t.Errorf("Answered is %v: %v", e.Answered(), e)
					}
				})
			})
		}
	}
}

// An answer to the last attempt does not answer an earlier attempt.
func TestAnsweredIsOfEveryAttempt(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		want  bool
	}{
		{"both answered", []step{replies(500, ""), replies(500, "")}, true},
		{"the first was lost", []step{fails(reset), replies(500, "")}, false},
		{"the second was lost", []step{replies(500, ""), fails(reset)}, false},
		{"the first was not sent", []step{fails(refused), replies(500, "")}, true},
		{"a 503 in words of the API", []step{replies(503, `{"code":"busy"}`), replies(500, "")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, _ := scripted(t, Config{Attempts: 2, Timeout: time.Second, Fault: readFault}, tt.steps...)
				if e := failure(t, c.Do(t.Context(), "POST", "/servers", nil, nil, Idempotent)); e.Answered() != tt.want {
					t.Errorf("Answered is %v: %v", e.Answered(), e)
				}
			})
		})
	}
}

func names(opts []Option) string {
	o := newOptions("", opts)
	var b strings.Builder
	for _, is := range []struct {
		name string
		set  bool
	}{{"safe", o.safe}, {"idempotent", o.idempotent}, {"once", o.once}} {
		if is.set {
			b.WriteString("," + is.name)
		}
	}
	return b.String()
}

// A create is never repeated once an attempt may have had an effect, and Ambiguous is then true.
func TestCreateIsNeverRepeatedAfterItMayHaveWorked(t *testing.T) {
	harmless := []step{fails(refused), replies(429, ""), replies(429, "{", "Retry-After", "2"), replies(429, "", "Retry-After", "Sun, 01 Jan 2000 00:00:30 GMT")}
	telling := []step{fails(reset), hangs, breaksOff("{"), replies(500, "oh"), replies(502, ""), replies(503, "", "Retry-After", "1"), replies(200, "?"), replies(307, "", "Location", "/v2/servers")}
	for seed := range uint64(200) {
		bubble.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			var steps []step
			before := r.IntN(4)
			for range before {
				steps = append(steps, harmless[r.IntN(len(harmless))])
			}
			steps = append(steps, telling[r.IntN(len(telling))], replies(200, `{"ID":"second machine"}`))
			c, api := scripted(t, Config{Timeout: time.Second}, steps...)
			var out struct{ ID string }
			e := failure(t, c.Do(t.Context(), "POST", "/servers", struct{}{}, &out))
			if api.attempts() != before+1 || !e.Ambiguous() || out.ID != "" {
				t.Errorf("seed %d: %d attempts after %d harmless ones, Ambiguous is %v: %v", seed, api.attempts(), before, e.Ambiguous(), e)
			}
		})
	}
}

// If one attempt may have had an effect, a later refusal does not change that.
func TestAmbiguityStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, api := scripted(t, Config{Fault: readFault}, replies(502, ""), replies(400, `{"code":"quota","message":"no more"}`))
		e := failure(t, c.Do(t.Context(), "POST", "/servers", nil, nil, Idempotent, Header("Idempotency-Key", "k")))
		if e.Status != 400 || e.Code != "quota" || !e.Ambiguous() || api.attempts() != 2 {
			t.Errorf("%d attempts, %v", api.attempts(), e)
		}
		if !strings.HasSuffix(e.Error(), "; it may have taken effect") {
			t.Errorf("the error does not report an earlier effect: %v", e)
		}
	})
}

// The transport's report about connections is about one attempt: with a connection the request may have been sent,
// whatever the error; without one it was not.
func TestWhetherItLeft(t *testing.T) {
	traced := func(connected bool, then step) step {
		return func(r *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(r.Context())
			trace.GetConn("api.acme.test:443")
			if connected {
				trace.GotConn(httptrace.GotConnInfo{})
			}
			return then(r)
		}
	}
	for _, tt := range []struct {
		name      string
		steps     []step
		attempts  int
		ambiguous bool
	}{
		{"no handshake", []step{traced(false, fails(errors.New("tls: handshake failure")))}, 5, false},
		{"dial after a connection", []step{traced(true, fails(refused))}, 1, true},
		{"invalid header, and a connection", []step{traced(true, fails(errors.New(`malformed response "invalid header"`)))}, 1, true},
		{"a connection before", []step{traced(true, replies(429, "")), traced(false, fails(errors.New("proxy is down")))}, 5, false},
		{"a dial before", []step{traced(false, fails(refused)), traced(true, fails(reset))}, 2, true},
		{"nothing is told", []step{fails(errors.New("proxy is down"))}, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, api := scripted(t, Config{}, tt.steps...)
				e := failure(t, c.Do(t.Context(), "POST", "/servers", nil, nil))
				if api.attempts() != tt.attempts || e.Ambiguous() != tt.ambiguous {
					t.Errorf("%d attempts, Ambiguous is %v: %v", api.attempts(), e.Ambiguous(), e)
				}
			})
		})
	}
}

// Every attempt sends the whole body.
func TestEveryAttemptSendsTheBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		reads := func(status int) step {
			return func(req *http.Request) (*http.Response, error) {
				b := make([]byte, 100)
				n, _ := req.Body.Read(b)
				if string(b[:n]) != `{"name":"n0"}` || req.ContentLength != int64(n) {
					t.Errorf("sent: %q, of %d", b[:n], req.ContentLength)
				}
				return replies(status, `{}`)(req)
			}
		}
		c, api := scripted(t, Config{}, reads(429), reads(429), reads(200))
		if err := c.Do(t.Context(), "POST", "/servers", map[string]string{"name": "n0"}, nil); err != nil || api.attempts() != 3 {
			t.Errorf("%d attempts, %v", api.attempts(), err)
		}
	})
}

func TestWaitsBetweenAttempts(t *testing.T) {
	date := func(d time.Duration) string { // synctest starts in the year 2000
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for _, tt := range []struct {
		name        string
		step        step
		least, most time.Duration // of the first wait
	}{
		{"5xx", replies(503, ""), firstWait / 2, firstWait},
		{"cut", fails(reset), firstWait / 2, firstWait},
		{"429", replies(429, ""), limitedWait * firstWait / 2, limitedWait * firstWait},
		{"seconds", replies(429, "", "Retry-After", "20"), 20 * time.Second, 22 * time.Second},
		{"seconds with 503", replies(503, "", "Retry-After", " 7 "), 7 * time.Second, 8 * time.Second},
		{"date", replies(429, "", "Retry-After", date(90*time.Second)), 90 * time.Second, 99 * time.Second},
		{"the most", replies(429, "", "Retry-After", "120"), 120 * time.Second, 132 * time.Second},
		{"a past date", replies(429, "", "Retry-After", date(-time.Hour)), limitedWait * firstWait / 2, limitedWait * firstWait},
		{"zero", replies(429, "", "Retry-After", "0"), limitedWait * firstWait / 2, limitedWait * firstWait},
		{"negative", replies(429, "", "Retry-After", "-5"), limitedWait * firstWait / 2, limitedWait * firstWait},
		{"nonsense", replies(503, "", "Retry-After", "soon"), firstWait / 2, firstWait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, _ := scripted(t, Config{}, tt.step, replies(200, "{}"))
				start := time.Now()
				if err := c.Do(t.Context(), "GET", "/servers", nil, nil); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took < tt.least || took > tt.most {
					t.Errorf("the second attempt came after %v, not %v to %v", took, tt.least, tt.most)
				}
			})
		})
	}
}

// The configured first wait doubles with each attempt; a Retry-After replaces the wait.
func TestFirstWait(t *testing.T) {
	const own = 10 * time.Millisecond
	for name, tt := range map[string]struct {
		step        step
		least, most time.Duration // of all the waits
	}{
		"5xx":         {replies(503, ""), 15 * own / 2, 15 * own},
		"429":         {replies(429, ""), limitedWait * 15 * own / 2, limitedWait * 15 * own},
		"Retry-After": {replies(429, "", "Retry-After", "1"), 4 * time.Second, 4400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, api := scripted(t, Config{FirstWait: own}, tt.step)
				start := time.Now()
				failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil))
				if took := time.Since(start); api.attempts() != 5 || took < tt.least || took > tt.most {
					t.Errorf("%d attempts took %v, not %v to %v", api.attempts(), took, tt.least, tt.most)
				}
			})
		})
	}
}

// The client does not wait for a Retry-After beyond the bound. The error has it, for the caller to plan.
func TestLongRetryAfter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, api := scripted(t, Config{}, replies(429, "", "Retry-After", "86400"))
		start := time.Now()
		e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil))
		if api.attempts() != 1 || time.Since(start) != 0 || e.RetryAfter != 24*time.Hour {
			t.Errorf("%d attempts in %v, RetryAfter is %v", api.attempts(), time.Since(start), e.RetryAfter)
		}
	})
}

// The last answer to a retried call may be more certain than all answers together.
func TestLastAttemptAlone(t *testing.T) {
	for status, want := range map[int]bool{404: false, 501: true} { // after a 501 the effect is unknown
		bubble.Test(t, func(t *testing.T) {
			c, _ := scripted(t, Config{}, replies(502, ""), replies(status, ""))
			e := failure(t, c.Do(t.Context(), "DELETE", "/servers/1", nil, nil))
			if !e.Ambiguous() || e.Status != status || e.Last().Ambiguous() != want || e.Last().Status != status {
				t.Errorf("%v; its last attempt: %v", e, e.Last())
			}
		})
	}
}

// A time to wait in a body counts like the header's. The header takes precedence.
func TestRetryAfterOfAFault(t *testing.T) {
	for header, want := range map[string]time.Duration{"": time.Minute, "2": 2 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			banned := func(int, []byte) *Fault { return &Fault{Message: "banned for a minute", RetryAfter: time.Minute} }
			c, _ := scripted(t, Config{Attempts: 2, Fault: banned}, replies(429, "banned", "Retry-After", header))
			start := time.Now()
			e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil))
			if took := time.Since(start); e.RetryAfter != want || took < want || took > want*11/10 {
				t.Errorf("with the header %q it took %v, RetryAfter is %v", header, took, e.RetryAfter)
			}
		})
	}
}

// The waits of a call double, up to the bound.
func TestBackoffIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const attempts = 12
		c, api := scripted(t, Config{Attempts: attempts}, replies(500, ""))
		start := time.Now()
		failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil))
		var most time.Duration
		for n := range attempts - 1 {
			most += min(firstWait<<n, maxWait)
		}
		if took := time.Since(start); api.attempts() != attempts || took < most/2 || took > most {
			t.Errorf("%d attempts took %v, of at most %v", api.attempts(), took, most)
		}
	})
}

func TestCauseCanBeReached(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := scripted(t, Config{Attempts: 1}, fails(refused))
		err := c.Do(t.Context(), "GET", "/servers", nil, nil)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v is not ECONNREFUSED", err)
		}
		if want := "GET /servers: dial tcp: connection refused"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "1.5", " 3 ", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "Mon, 01 Jan 9999 00:00:00 GMT", "soon"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := retryAfter(header, now); d < 0 {
			t.Errorf("%q means %v", header, d)
		}
	})
}
