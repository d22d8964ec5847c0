package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-cleanhttp"
)

// Config describes an API. Only BaseURL must be set.
type Config struct {
	// BaseURL is prepended to paths: "https://api.acme.com/v1".
	BaseURL string
	// HTTPClient makes the calls. It is copied and not changed. Redirects of reads are followed within their server
	// only. Nil means a client of the Client's own.
	HTTPClient *http.Client
	// Auth signs the calls. The zero value does not sign.
	Auth Auth
	// Fault reads the API's own description of a failure from an answer, and returns nil if there is none. It is called
	// for answers of every status, as some APIs report failures in a 200, and the body may not be JSON.
	Fault func(status int, body []byte) *Fault
	// SecretFields are the names of fields in the API's JSON answers whose strings are secrets: passwords, private
	// keys, tokens.
	SecretFields []string
	// Limit spaces all calls of the client. Nil means no limit.
	Limit *Limiter
	// Timeout bounds one attempt, from its connection to the end of the answer. Zero means HTTPClient's timeout, and 30
	// seconds if that has none.
	Timeout time.Duration
	// Attempts bounds the attempts at a call that may be repeated. Zero means 5.
	Attempts int
	// FirstWait bounds the wait before the second attempt, unless the API asks for another. Each further wait is twice
	// as long, up to 30 seconds, and all are four times as long after a 429. Zero means a second.
	FirstWait time.Duration
	// MaxBody bounds the bytes of an answer. Zero means 64 MiB.
	MaxBody int64
	// Logger gets a line for every attempt, at debug level. Nil means no log.
	Logger *slog.Logger
}

// A Client calls one API. It can be used concurrently.
type Client struct {
	cfg  Config // with defaults in place of zeros
	http *http.Client
	// secretFields matches Config.SecretFields in an answer. Nil means that there are none.
	secretFields *regexp.Regexp
	// These two funcs hold the known secrets: fmt prints the fields of a struct, whatever their types say, but not what
	// a func holds.
	hide   func(secrets ...string)
	redact func(text string, cut bool) string
	close  func()
	ahead  *atomic.Int64 // see Ahead; in nanoseconds
}

// New returns a client. It contacts nothing.
func New(cfg Config) (*Client, error) {
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil:
		return nil, errors.New("the API's address is not a URL; it is like https://api.example.com/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the API's address has a user, a query or a fragment; leave them out")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return nil, fmt.Errorf("the API's address %q is not like https://api.example.com/v1", cfg.BaseURL)
	}
	c := &Client{cfg: cfg, secretFields: fieldPattern(cfg.SecretFields), close: func() {}, ahead: new(atomic.Int64)}
	c.hide, c.redact = newRedactor()
	c.cfg.Attempts = cmp.Or(cfg.Attempts, 5)
	c.cfg.FirstWait = cmp.Or(cfg.FirstWait, firstWait)
	c.cfg.MaxBody = cmp.Or(cfg.MaxBody, 64<<20)

	if cfg.HTTPClient != nil {
		own := *cfg.HTTPClient
		c.http = &own
	} else {
		transport := cleanhttp.DefaultPooledTransport()
		c.http, c.close = &http.Client{Transport: transport}, transport.CloseIdleConnections
	}
	c.http.Timeout = cmp.Or(cfg.Timeout, c.http.Timeout, 30*time.Second)
	c.http.Transport = shared{cmp.Or(c.http.Transport, http.DefaultTransport)}
	c.http.CheckRedirect = followWithin(c.http.CheckRedirect)
	return c, nil
}

// Do makes a call and decodes its answer into out. Every failure is an *[Error].
//
// A path begins with a slash; variable parts of it are escaped by [url.PathEscape]. The type of in decides what is
// sent: nil nothing, [url.Values] a form, a string plain text, anything else JSON. The type of out decides how the
// answer is read: nil ignores it; a *string takes text, or the string if the JSON is one; anything else is decoded from
// JSON, which must be there and complete.
func (c *Client) Do(ctx context.Context, method, path string, in, out any, opts ...Option) error {
	k, err := c.newCall(ctx, method, path, in, out, opts)
	if err != nil {
		return &Error{Method: method, Path: c.Redact(path), Err: c.clean(err)}
	}
	return k.run()
}

// Hide makes values known as secrets: the client removes them from all texts from then on. Those of [Auth] and
// Config.SecretFields need not be hidden.
func (c *Client) Hide(secrets ...string) { c.hide(secrets...) }

// Redact returns a text without known secrets, and without control characters that a terminal would act on.
func (c *Client) Redact(text string) string { return c.redact(text, false) }

// Ahead returns how far the API's clock is ahead of this computer's, as its last answer had it. It is added to each
// absolute time that is sent there. Before the first answer, and if they are a few seconds apart, it is zero.
func (c *Client) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }

// tell learns the API's clock from an answer. Its Date header has whole seconds.
func (c *Client) tell(h http.Header) {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		ahead := time.Until(at)
		if ahead.Abs() < 5*time.Second { // the answer's own time, and its second
			ahead = 0
		}
		c.ahead.Store(int64(ahead))
	}
}

// Close closes idle connections, if they are the client's own.
func (c *Client) Close() { c.close() }

// A shared transport keeps its idle connections when a call fails, since others may use them: it hides the method by
// which retryablehttp would close them.
type shared struct{ http.RoundTripper }

// followWithin returns a policy for redirects. A read is redirected within its server, under the rules of the user's
// own policy. Any other redirect is returned as the answer: the key is not for another server, nor for an unencrypted
// connection, and a POST would go on as a GET, whose success would not mean that the request succeeded.
func followWithin(user func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0]
		read := first.Method == http.MethodGet || first.Method == http.MethodHead
		if !read || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
			return http.ErrUseLastResponse
		}
		if user != nil {
			return user(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
}
