package vastai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// tailLines and tailBytes bound the end of a failed instance's log that its reason shows.
	tailLines = "10"
	tailBytes = 1000
)

// explain adds the end of Vast's log to the reasons of instances that this driver has launched, and
// that failed. It reads each log once.
func (p *provider) explain(ctx context.Context, found []driver.Instance) {
	var reading sync.WaitGroup
	for i := range found {
		in := &found[i]
		p.mu.Lock()
		n := p.notes[in.ID]
		fails := n != nil && !n.launched.IsZero() && n.failed == nil && !n.ended && in.State == driver.InstanceFailed
		p.mu.Unlock()
		if !fails {
			continue
		}
		reading.Go(func() {
			if text := p.tailOf(ctx, in.ID, n); text != "" {
				in.StateReason += "; its log ends with: " + text
			}
		})
	}
	reading.Wait()
}

// tailOf returns the end of an instance's log. One that cannot be read is empty: it must not hide the
// failure that it would explain.
func (p *provider) tailOf(ctx context.Context, id string, n *note) string {
	p.mu.Lock()
	known := n.tail
	p.mu.Unlock()
	if known != nil {
		return *known
	}
	text, err := p.client.tail(ctx, id)
	if err != nil && ctx.Err() != nil {
		return "" // the next call reads it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n.tail = &text
	return text
}

// tail returns the end of an instance's log, in one line and without secrets: of its container, or of
// Vast's daemon, which pulls the image, if there is no container yet.
func (c *client) tail(ctx context.Context, id string) (string, error) {
	var text string
	var err error
	for _, in := range []map[string]string{{"tail": tailLines}, {"tail": tailLines, "daemon_logs": "true"}} {
		text, err = c.requestLog(ctx, id, in)
		if text = strings.TrimSpace(text); text != "" {
			break
		}
	}
	text = c.rest.Redact(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " | "))
	if len(text) > tailBytes {
		text = "…" + strings.ToValidUTF8(text[len(text)-tailBytes:], "")
	}
	return text, err
}

// requestLog asks for a log, and returns it.
func (c *client) requestLog(ctx context.Context, id string, in map[string]string) (string, error) {
	var out struct {
		done
		ResultURL string `json:"result_url"`
	}
	path := "/api/v0/instances/request_logs/" + url.PathEscape(id) + "/"
	if err := c.rest.Do(ctx, "PUT", path, in, &out, rest.Idempotent, rest.Limit(c.limits.manage)); err != nil {
		return "", err
	}
	text, err := c.log(ctx, out.ResultURL)
	if err != nil {
		return "", fmt.Errorf("PUT %s: its result_url: %w", path, err)
	}
	return text, nil
}

// log reads a log from the address that the API names. That is another server: it gets nothing
// of the account, and the read is bounded.
func (c *client) log(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.User != nil, u.Scheme != "https" && !c.local:
		return "", fmt.Errorf("%w: it is not an https address", rest.ErrAnswer)
	case localnet.IsURL(address) && !c.local:
		return "", fmt.Errorf("%w: it is an address on this computer or its link", rest.ErrAnswer)
	}
	own := http.Client{Transport: c.plain}
	there, err := rest.New(rest.Config{BaseURL: u.Scheme + "://" + u.Host, HTTPClient: &own, Attempts: 1, MaxBody: maxLog})
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		var text string
		err := there.Do(ctx, "GET", u.EscapedPath(), nil, &text, rest.Query(u.Query()), rest.EmptyAnswer)
		if err == nil || n == logPolls || !retry.Sleep(ctx, logPause()) {
			return text, err
		}
	}
}
