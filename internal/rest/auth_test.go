package rest

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

// signed answers with good if the call has the current key, else with a 401.
func signed(good step, keys func() string) step {
	return func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") == "Bearer "+keys() {
			return good(r)
		}
		return replies(401, `{"message":"no such token"}`)(r)
	}
}

// All callers share one token until a minute before it expires.
func TestToken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tokens := newTokenServer(t)
		last := func() string { all := tokens.issued(); return all[len(all)-1] }
		c, _ := scripted(t, Config{Auth: ClientCredentials(tokens.client, "/oauth2/token", "id", secret)}, signed(replies(200, "{}"), last))
		for _, tt := range []struct {
			after time.Duration
			want  int // tokens so far
		}{{0, 1}, {58 * time.Minute, 1}, {time.Minute, 2}, {58 * time.Minute, 2}, {2 * time.Minute, 3}} {
			time.Sleep(tt.after)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if err := c.Do(t.Context(), "GET", "/servers", nil, nil); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got := len(tokens.issued()); got != tt.want {
				t.Errorf("%d tokens after another %v, want %d", got, tt.after, tt.want)
			}
		}
	})
}

// A token lives as long as its answer states, in any form.
func TestTokenLife(t *testing.T) {
	for life, want := range map[string]time.Duration{
		"3600": 59 * time.Minute, `"3600"`: 59 * time.Minute, "60": 30 * time.Second, "null": 4 * time.Minute, "-1": 4 * time.Minute, "99999999999": 68 * 365 * 24 * time.Hour,
	} {
		bubble.Test(t, func(t *testing.T) {
			tokens := newTokenServer(t)
			tokens.life = life
			c, _ := scripted(t, Config{Auth: ClientCredentials(tokens.client, "/oauth2/token", "id", secret)}, replies(200, "{}"))
			for i, wait := range []time.Duration{0, want - time.Second, 2 * time.Second} {
				time.Sleep(wait)
				if err := c.Do(t.Context(), "GET", "/servers", nil, nil); err != nil {
					t.Fatal(err)
				}
				wantTokens := []int{1, 1, 2}[i]
				if life == "99999999999" {
					wantTokens = 1
				}
				if got := len(tokens.issued()); got != wantTokens {
					t.Errorf("expires_in %s: %d tokens, want %d", life, got, wantTokens)
				}
			}
		})
	}
}

// A token that the API no longer accepts is replaced once, even during a create: a refusal has no effect.
func TestTokenIsRenewedOnce(t *testing.T) {
	for _, tt := range []struct {
		name             string
		opts             []Option
		accepted         string // the token that the API takes
		attempts, tokens int
		good             bool
	}{
		{"create", nil, "ey.token-1", 2, 2, true},
		{"create once", []Option{Once}, "ey.token-1", 1, 1, false},
		{"read", []Option{Safe}, "ey.token-1", 2, 2, true},
		{"refused again", nil, "ey.token-7", 2, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				tokens := newTokenServer(t)
				cfg := Config{Auth: ClientCredentials(tokens.client, "/oauth2/token", "id", secret), Fault: readFault}
				c, api := scripted(t, cfg, signed(replies(200, "{}"), func() string { return tt.accepted }))
				err := c.Do(t.Context(), "POST", "/servers", nil, nil, tt.opts...)
				if api.attempts() != tt.attempts || len(tokens.issued()) != tt.tokens || (err == nil) != tt.good {
					t.Errorf("%d attempts, %d tokens, %v", api.attempts(), len(tokens.issued()), err)
				}
				if first := api.seen[0].Header.Get("Authorization"); first != "Bearer ey.token-0" { // it may still be sent
					t.Errorf("the first attempt's header has become %q", first)
				}
				if err != nil {
					if e := failure(t, err); e.Status != 401 || e.Message != "no such token" || e.Ambiguous() {
						t.Errorf("the error is %v", e)
					}
				}
			})
		})
	}
}

// A 401 between other failures still renews the token, and only once.
func TestTokenIsRenewedOnceAmongFailures(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tokens := newTokenServer(t)
		cfg := Config{Auth: ClientCredentials(tokens.client, "/oauth2/token", "id", secret), Attempts: 9}
		c, api := scripted(t, cfg, replies(503, ""), replies(401, ""), replies(503, ""), replies(401, ""), replies(200, ""))
		if e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil)); e.Status != 401 || api.attempts() != 4 || len(tokens.issued()) != 2 {
			t.Errorf("%d attempts, %d tokens, %v", api.attempts(), len(tokens.issued()), e)
		}
	})
}

// Callers whose token was refused at the same time get one new token among them.
func TestTokenIsRenewedForAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tokens := newTokenServer(t)
		c, _ := scripted(t, Config{Auth: ClientCredentials(tokens.client, "/oauth2/token", "id", secret)}, func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second) // so that all use the first token
			return signed(replies(200, "{}"), func() string { return "ey.token-1" })(r)
		})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := c.Do(t.Context(), "POST", "/servers", nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := len(tokens.issued()); got != 2 {
			t.Errorf("%d tokens", got)
		}
	})
}

func echoesForm(r *http.Request) (*http.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	return replies(400, `{"message":"no client `+r.Form.Get("client_id")+" "+r.Form.Get("client_secret")+`"}`)(r)
}

// A call that gets no token was not made: its error has the cause and the status of the refusal, and is not
// ambiguous.
func TestNoToken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer step
		status int
		want   string
	}{
		{"refused", replies(401, `{"code":"unauthorized_request","message":"Invalid client"}`, "X-Request-Id", "r1"), 401,
			"POST /servers: 401 Unauthorized: unauthorized_request: POST /oauth2/token: 401 Unauthorized: unauthorized_request: Invalid client"},
		{"refused, with the secret", echoesForm, 400, "POST /servers: 400 Bad Request: POST /oauth2/token: 400 Bad Request: no client id [redacted]"},
		{"none in it", replies(200, `{}`), 0, "POST /servers: POST /oauth2/token: the answer is not understood: it has no access_token"},
		{"down", fails(reset), 0, "POST /servers: POST /oauth2/token: read tcp: connection reset by peer"},
		{"page", replies(200, `<html>`, "Content-Type", "text/html"), 200,
			`POST /servers: 200 OK: POST /oauth2/token: 200 OK: the answer is not understood (text/html, 6 bytes): it is an HTML page: "<html>"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				tokens, _ := scripted(t, Config{Fault: readFault}, tt.answer)
				c, api := scripted(t, Config{Auth: ClientCredentials(tokens, "/oauth2/token", "id", secret)}, replies(200, "{}"))
				e := failure(t, c.Do(t.Context(), "POST", "/servers", nil, nil))
				if api.attempts() != 0 || e.Ambiguous() || e.Status != tt.status || e.Error() != tt.want {
					t.Errorf("%d attempts, Ambiguous is %v, status %d:\n     %v\nwant %s", api.attempts(), e.Ambiguous(), e.Status, e, tt.want)
				}
			})
		})
	}
}

// A caller that gives up does not wait for an API that is slow to issue a token.
func TestCancelWhileAnotherGetsTheToken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tokens, _ := scripted(t, Config{Timeout: time.Hour}, hangs)
		c, _ := scripted(t, Config{Auth: ClientCredentials(tokens, "/oauth2/token", "id", secret)}, replies(200, "{}"))
		ctx, cancel := contextWithCause(t)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := c.Do(ctx, "GET", "/servers", nil, nil); !errors.Is(err, errLeft) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel(errLeft)
		wg.Wait()
	})
}

func TestUserAgent(t *testing.T) {
	if ua := userAgent(); !strings.HasPrefix(ua, "gputrain/") || strings.ContainsAny(ua, " ()") {
		t.Errorf("it is %q", ua)
	}
}
