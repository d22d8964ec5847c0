package cloudtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// OddRows has every list that the API answers with begin with a row whose values are of another type. The offers of the other rows
// are there, and the odd one is told.
func (c Cloud[F, C]) OddRows(t *testing.T) {
	t.Parallel()
	f := c.still(t)
	query := driver.Query{Accelerator: c.Spec.Accelerator}
	offers := func(transport http.RoundTripper) (ids []string, told error) {
		cfg := c.Config(f)
		c.Client(&cfg, &http.Client{Transport: transport})
		d, err := cfg.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if odd, ok := transport.(*oddRows); ok {
			odd.on = true
		}
		for o, err := range d.Offers(t.Context(), query) {
			if partial, ok := errors.AsType[*driver.PartialError](err); ok {
				told = partial
			} else if err != nil {
				t.Fatal(err)
			} else if o.Rejected == "" {
				ids = append(ids, o.ID)
			}
		}
		slices.Sort(ids)
		return ids, told
	}
	all, told := offers(http.DefaultTransport)
	if len(all) == 0 || told != nil {
		t.Fatalf("without an odd row: %q, %v", all, told)
	}
	odd := &oddRows{}
	some, told := offers(odd)
	if strings.Join(some, " ") != strings.Join(all, " ") {
		t.Errorf("beside an odd row: %q, want %q", some, all)
	}
	if !errors.Is(told, driver.ErrUnsupported) || !strings.Contains(told.Error(), "left out") {
		t.Errorf("the odd row is told as %v", told)
	}
}

// An oddRows is a transport that adds odd rows.
type oddRows struct{ on bool }

func (o *oddRows) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !o.on || resp.StatusCode != 200 {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var answer any
	if dec.Decode(&answer) == nil {
		if with, err := json.Marshal(withOdd(answer)); err == nil {
			body = with
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, nil
}

// withOdd adds to each list of objects, and each object of objects, an odd one.
func withOdd(v any) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		if len(v) > 0 {
			if first, ok := v[0].(map[string]any); ok {
				out = append(out, oddCopy(first))
			}
		}
		for _, e := range v {
			out = append(out, withOdd(e))
		}
		return out
	case map[string]any:
		out, objects := map[string]any{}, 0
		var first map[string]any
		for name, e := range v {
			if object, ok := e.(map[string]any); ok {
				objects, first = objects+1, object
			}
			out[name] = withOdd(e)
		}
		if objects > 0 && objects == len(v) {
			out["odd"] = oddCopy(first)
		}
		return out
	}
	return v
}

func oddCopy(of map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range of {
		switch value.(type) {
		case string, json.Number, bool:
			value = map[string]any{"odd": []any{}}
		}
		out[name] = value
	}
	return out
}
