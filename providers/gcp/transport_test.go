package gcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/googleapis/gax-go/v2/callctx"
)

// A request of a list ends at the client's timeout, and when the list's context ends,
// before the answer begins and in the midst of it.
func TestRequestsOfListsEnd(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, `{"items": [`)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	for _, path := range []string{"/", "/begun"} {
		for name, tt := range map[string]struct {
			timeout, givenUp time.Duration
			want             error
		}{
			"at the timeout": {100 * time.Millisecond, time.Hour, context.DeadlineExceeded},
			"with the list":  {time.Hour, 100 * time.Millisecond, context.Canceled},
		} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(tt.givenUp, cancel)
				tr := &transport{base: base}
				listing, done := tr.listing(ctx)
				defer done()
				req, err := http.NewRequest("GET", server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				for key, values := range callctx.HeadersFromContext(listing) {
					req.Header[http.CanonicalHeaderKey(key)] = values
				}
				resp, err := (&http.Client{Transport: tr, Timeout: tt.timeout}).Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if !errors.Is(err, tt.want) {
					t.Errorf("%v; want %v", err, tt.want)
				}
			})
		}
	}
}
