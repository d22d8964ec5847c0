package rest

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/ports"
)

func TestNew(t *testing.T) {
	for _, bad := range []string{"", "api.acme.com", "ftp://api.acme.com", "https://", "https:///v1", "https://user:" + secret + "@api.acme.com", "https://api.acme.com?k=" + secret, "https://api.acme.com#a", "https://api.acme.com/%zz" + secret, ":"} {
		if c, err := New(Config{BaseURL: bad}); err == nil {
			c.Close()
			t.Errorf("New accepts the address %q", bad)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

// The user's client is used, and not changed.
func TestUsersClient(t *testing.T) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &countingTransport{}
	policy := func(*http.Request, []*http.Request) error { return errors.New("no redirects here") }
	theirs := &http.Client{Transport: transport, Jar: jar, Timeout: 7 * time.Second, CheckRedirect: policy}
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch hits.Add(1) {
		case 1:
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			io.WriteString(w, "{}")
		case 2:
			if _, err := r.Cookie("a"); err != nil {
				t.Error(err)
			}
			http.Redirect(w, r, "/v1/other", http.StatusFound)
		default:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		}
	}))
	defer server.Close()
	defer transport.CloseIdleConnections()
	c := newClient(t, Config{BaseURL: server.URL + "/v1", HTTPClient: theirs, Attempts: 1})
	if err := c.Do(bounded(t), "GET", "/servers", nil, nil); err != nil {
		t.Error(err)
	}
	if err := c.Do(bounded(t), "GET", "/servers", nil, nil); err == nil || !strings.Contains(err.Error(), "no redirects here") {
		t.Error(err)
	}
	if e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, nil)); !e.Ambiguous() {
		t.Error(e)
	}
	c.Close()
	if theirs.Transport != transport || theirs.Jar != jar || theirs.Timeout != 7*time.Second || fmt.Sprintf("%p", theirs.CheckRedirect) != fmt.Sprintf("%p", policy) {
		t.Errorf("the user's client has become %+v", theirs)
	}
	if transport.trips.Load() != 3 || transport.closed.Load() != 0 {
		t.Errorf("%d trips; idle connections were closed %d times", transport.trips.Load(), transport.closed.Load())
	}
	if got := newClient(t, Config{BaseURL: "https://a", HTTPClient: theirs}).http.Timeout; got != 7*time.Second {
		t.Errorf("its timeout has become %v", got)
	}
	if got := newClient(t, Config{BaseURL: "https://a", HTTPClient: &http.Client{}}).http.Timeout; got != 30*time.Second {
		t.Errorf("without one it is %v", got)
	}
}

type countingTransport struct {
	http.Transport
	trips, closed atomic.Int32
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.trips.Add(1)
	return c.Transport.RoundTrip(r)
}

func (c *countingTransport) CloseIdleConnections() {
	c.closed.Add(1)
	c.Transport.CloseIdleConnections()
}

// A redirect to another server is not followed, so that no signed call gets there. A POST is not
// redirected at all, as it would become a GET.
func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		io.WriteString(w, `{"id":"elsewhere"}`)
	}))
	defer other.Close()
	for _, tt := range []struct {
		name, method string
		status       int
		to           string
		followed     bool
	}{
		{"read within", "GET", 302, "/v1/there", true},
		{"read within, moved", "GET", 308, "/v1/there", true},
		{"read elsewhere", "GET", 307, other.URL + "/v1/there", false},
		{"read to another scheme", "GET", 301, "https://HOST/v1/there", false},
		{"create, 302", "POST", 302, "/v1/there", false},
		{"create, 307", "POST", 307, "/v1/there", false},
		{"create elsewhere", "POST", 308, other.URL + "/v1/there", false},
		{"delete", "DELETE", 303, "/v1/there", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := served(t, Config{Auth: HeaderKey("X-Auth-Token", secret)}, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Auth-Token") != secret {
					t.Error("the call is not signed")
				}
				if strings.HasSuffix(r.URL.Path, "/there") {
					io.WriteString(w, `{"id":"there"}`)
					return
				}
				w.Header().Set("Location", strings.Replace(tt.to, "HOST", r.Host, 1)+"?signature=xyz")
				w.WriteHeader(tt.status)
			})
			var out struct{ ID string }
			err := c.Do(bounded(t), tt.method, "/servers", nil, &out)
			if tt.followed {
				if err != nil || out.ID != "there" {
					t.Errorf("%q, %v", out.ID, err)
				}
				return
			}
			e := failure(t, err)
			if e.Status != tt.status || !strings.Contains(e.Error(), "/v1/there, which is not followed") || strings.Contains(e.Error(), "xyz") {
				t.Errorf("the error is %v", e)
			}
			if e.Ambiguous() != (tt.method != "GET") {
				t.Errorf("Ambiguous is %v", e.Ambiguous())
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Errorf("the other server was called %d times", elsewhere.Load())
	}
}

// Over real connections, an unsent request had no effect, and a sent request may have had one.
func TestRealConnections(t *testing.T) {
	hangUp := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(conn, answer)
				conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		}
	}
	once := Config{Attempts: 1, Timeout: deadline}
	t.Run("refused", func(t *testing.T) {
		c := newClient(t, Config{BaseURL: "http://" + ports.Dead(t).String(), Attempts: 1})
		if e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, nil)); e.Ambiguous() || !errors.Is(e, syscall.ECONNREFUSED) && !strings.Contains(e.Error(), "refused") {
			t.Errorf("Ambiguous is %v: %v", e.Ambiguous(), e)
		}
	})
	t.Run("unknown certificate", func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = discard
		server.StartTLS()
		defer server.Close()
		c := newClient(t, Config{BaseURL: server.URL})
		e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, nil))
		if _, ok := errors.AsType[x509.UnknownAuthorityError](e); !ok || e.Ambiguous() {
			t.Errorf("Ambiguous is %v: %v", e.Ambiguous(), e)
		}
	})
	t.Run("key with a line break", func(t *testing.T) {
		c := newClient(t, Config{BaseURL: "http://127.0.0.1:1", Auth: Bearer(secret + "\n")})
		if e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, nil)); e.Ambiguous() || strings.Contains(e.Error(), secret) {
			t.Error(e)
		}
	})
	t.Run("not TLS", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Config.ErrorLog = discard
		defer server.Close()
		c := newClient(t, Config{BaseURL: strings.Replace(server.URL, "http:", "https:", 1), Attempts: 1})
		if e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, nil)); e.Ambiguous() {
			t.Error(e)
		}
	})
	for name, answer := range map[string]string{"cut before the answer": "", "cut in the header": "HTTP/1.1 200 OK\r\nContent-", "cut in the body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":"} {
		t.Run(name, func(t *testing.T) {
			c := served(t, once, hangUp(answer))
			if e := failure(t, c.Do(bounded(t), "POST", "/servers", struct{}{}, &struct{ ID string }{})); !e.Ambiguous() {
				t.Error(e)
			}
			if e := failure(t, c.Do(bounded(t), "GET", "/servers", nil, &struct{ ID string }{})); e.Ambiguous() {
				t.Error(e)
			}
		})
	}
	t.Run("no answer in time", func(t *testing.T) {
		release := make(chan struct{})
		c := served(t, Config{Attempts: 1}, func(http.ResponseWriter, *http.Request) { <-release })
		defer close(release)
		e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, nil, Timeout(time.Millisecond)))
		if ne, ok := errors.AsType[net.Error](e); !ok || !ne.Timeout() {
			t.Error(e)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		arrived, release := make(chan struct{}), make(chan struct{})
		c := served(t, Config{Timeout: deadline}, func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
		defer close(release)
		ctx, cancel := context.WithCancel(bounded(t))
		go func() { <-arrived; cancel() }()
		if e := failure(t, c.Do(ctx, "POST", "/servers", nil, nil)); !errors.Is(e, context.Canceled) || !e.Ambiguous() {
			t.Errorf("Ambiguous is %v: %v", e.Ambiguous(), e)
		}
	})
}

func TestPages(t *testing.T) {
	list := map[string][]int{"": {1, 2}, "b": {3}, "c": {}, "d": {4}}
	next := map[string]string{"": "b", "b": "c", "c": "d"}
	page := func(cursor string) ([]int, string, error) { return list[cursor], next[cursor], nil }
	collect := func(page func(string) ([]int, string, error)) (got []int, err error) {
		for i, err := range Pages(page) {
			if err != nil {
				return got, err
			}
			got = append(got, i)
		}
		return got, nil
	}
	if got, err := collect(page); err != nil || fmt.Sprint(got) != "[1 2 3 4]" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := collect(func(cursor string) ([]int, string, error) {
		if cursor == "b" {
			return nil, "", errLeft
		}
		return page(cursor)
	}); !errors.Is(err, errLeft) || fmt.Sprint(got) != "[1 2]" {
		t.Errorf("%v, %v", got, err)
	}
	for _, back := range []string{"b", "c", "d"} { // to an earlier page, or itself
		got, err := collect(func(cursor string) ([]int, string, error) {
			if cursor == "d" {
				return list[cursor], back, nil
			}
			return page(cursor)
		})
		if !errors.Is(err, ErrAnswer) || fmt.Sprint(got) != "[1 2 3 4]" {
			t.Errorf("%v, %v", got, err)
		}
	}
	for i := range Pages(func(cursor string) ([]int, string, error) {
		if cursor != "" {
			t.Error("paging goes on after the loop")
		}
		return page(cursor)
	}) {
		if i == 2 {
			break
		}
	}
}

// One client makes many calls at once, some of which are given up.
func TestManyAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var n atomic.Int32
		c, _ := scripted(t, Config{Auth: Bearer(secret), Limit: NewLimiter(10, time.Second)}, func(r *http.Request) (*http.Response, error) {
			switch n.Add(1) % 4 {
			case 0:
				return replies(503, "")(r)
			case 1:
				return hangs(r)
			}
			return replies(200, `{"id":"a"}`)(r)
		})
		done := make(chan error)
		for i := range 50 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*10*time.Second)
				defer cancel()
				var out struct{ ID string }
				err := c.Do(ctx, "GET", "/servers", nil, &out)
				if err == nil && out.ID != "a" {
					err = errors.New("no answer, and no error")
				} else if errors.Is(err, context.DeadlineExceeded) || err != nil && failure(t, err).Status == 503 {
					err = nil
				}
				done <- err
			}()
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
