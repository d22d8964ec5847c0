package aws

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/retry"
)

// An iamClient calls IAM: forms in, XML out. All its calls are idempotent.
type iamClient struct {
	address string
	http    answers
	sign    func(req *http.Request, hide func(...string)) error
}

// do makes a call and reads its answer into out, unless out is nil.
func (c *iamClient) do(ctx context.Context, action string, form url.Values, out any) (err error) {
	form.Set("Action", action)
	form.Set("Version", "2010-05-08")
	text := form.Encode()
	for n := 1; ; n++ {
		err = c.try(ctx, action, text, out)
		e, failed := err.(*rest.Error)
		again := failed && (e.Status == 0 || e.Status >= 500 || e.Status == http.StatusTooManyRequests || strings.HasPrefix(e.Code, "Throttling"))
		if !again || n == maxAttempts || !retry.Sleep(ctx, second*(1<<n)/4) {
			return err
		}
	}
}

func (c *iamClient) try(ctx context.Context, action, form string, out any) error {
	req, err := http.NewRequestWithContext(ctx, "POST", c.address+"/", strings.NewReader(form))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if err := c.sign(req, func(...string) {}); err != nil {
		return err
	}
	failed := &rest.Error{Method: "POST", Path: "/ (" + action + ")"}
	resp, err := c.http.Do(req)
	if err != nil {
		failed.Err = err
		return failed
	}
	defer resp.Body.Close()
	body, err := bounded.ReadAll(resp.Body, maxAnswer)
	if failed.Status, failed.Err = resp.StatusCode, err; err != nil {
		return failed
	}
	if resp.StatusCode >= 300 {
		var said struct {
			Code      string `xml:"Error>Code"`
			Message   string `xml:"Error>Message"`
			RequestID string `xml:"RequestId"`
		}
		if xml.Unmarshal(body, &said) == nil {
			failed.Code, failed.Message, failed.RequestID = said.Code, said.Message, said.RequestID
		}
		return failed
	}
	if out == nil {
		return nil
	}
	if err := xml.NewDecoder(bytes.NewReader(body)).Decode(out); err != nil {
		failed.Err = fmt.Errorf("%w: %w", rest.ErrAnswer, err)
		return failed
	}
	return nil
}
