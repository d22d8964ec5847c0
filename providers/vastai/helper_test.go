package vastai

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a transport that always gives one answer, with a text.
func answering(answer func() *http.Response, text string) roundTripper {
	return func(*http.Request) (*http.Response, error) {
		resp := answer()
		resp.Body = io.NopCloser(strings.NewReader(text))
		return resp, nil
	}
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
