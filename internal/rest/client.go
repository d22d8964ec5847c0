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
	"time"

	"github.com/hashicorp/go-cleanhttp"
)

// Config is an API as its provider sees it. Only BaseURL must be set.
type Config struct {
	// BaseURL is what paths are appended to: "https://api.acme.com/v1".
	BaseURL string
	// HTTPClient makes the calls. It is copied, never changed, and redirects of reads
	// are followed within their server only. Nil means one of the Client's own.
	HTTPClient *http.Client
	// Auth signs the calls. The zero value leaves them as they are.
	Auth Auth
	// Fault reads the API's own words for a failure out of an answer, and returns nil
	// where there are none. It is asked about answers of every status, as some APIs
	// report failures in a 200, and must expect a body that is no JSON.
	Fault func(status int, body []byte) *Fault
	// SecretFields are the names of fields, in JSON answers of this API, whose strings
	// are secrets: passwords, private keys, tokens.
	SecretFields []string
	// Limit spaces all calls of the client. Nil means no limit.
	Limit *Limiter
	// Timeout bounds one attempt, from its connection to the end of the answer. Zero
	// means that of HTTPClient, and 30 seconds where that has none.
	Timeout time.Duration
	// Attempts is how often a call is tried in all, where it may be tried again. Zero means 5.
	Attempts int
	// FirstWait is how long the second attempt waits at most, unless the API says for how
	// long; those after it wait twice as long each time, up to 30 seconds, and all of them
	// four times as long after a 429. Zero means a second.
	FirstWait time.Duration
	// MaxBody is how many bytes an answer may have. Zero means 64 MiB.
	MaxBody int64
	// Logger gets a line for every attempt, at debug level. Nil means none.
	Logger *slog.Logger
}

// A Client calls one API. It can be used by many goroutines at once.
type Client struct {
	cfg  Config // what was zero is filled in
	http *http.Client
	// secretFields matches Config.SecretFields in an answer. Nil means that there are none.
	secretFields *regexp.Regexp
	// What is known to be secret is held by these two alone: fmt prints the fields of
	// a struct, whatever their types say, but not what a func holds.
	hide   func(secrets ...string)
	redact func(text string, cut bool) string
	close  func()
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
	c := &Client{cfg: cfg, secretFields: fieldPattern(cfg.SecretFields), close: func() {}}
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

// Do makes a call and decodes its answer into out. Every failure to get one is an
// *[Error].
//
// A path begins with a slash; what varies in it goes through [url.PathEscape]. What
// in is decides what is sent: nil nothing, [url.Values] a form, a string plain text,
// anything else JSON. So does out for the answer: nil ignores it, a *string takes
// text, or the one string that the JSON is; anything else is decoded from JSON, which
// must then be there, and be all there is.
func (c *Client) Do(ctx context.Context, method, path string, in, out any, opts ...Option) error {
	k, err := c.newCall(ctx, method, path, in, out, opts)
	if err != nil {
		return &Error{Method: method, Path: c.Redact(path), Err: c.clean(err)}
	}
	return k.run()
}

// Hide makes values known as secrets: they are taken out of all that the client
// says from then on. Those of [Auth] and Config.SecretFields are known by themselves.
func (c *Client) Hide(secrets ...string) { c.hide(secrets...) }

// Redact returns a text without the secrets that are known, and without what a terminal
// would act on.
func (c *Client) Redact(text string) string { return c.redact(text, false) }

// Close gives back idle connections, where they are the client's own.
func (c *Client) Close() { c.close() }

// A shared transport keeps its idle connections, which may be another's, when a
// call fails: it hides the method by which retryablehttp would close them.
type shared struct{ http.RoundTripper }

// followWithin returns a policy for redirects. A read is redirected within its
// server, under the rules of the user's own policy. Elsewhere a redirect is the
// answer: the key is not for another server, nor for a connection in the clear, and a
// POST would go on as a GET, whose success says nothing of what was asked for.
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
