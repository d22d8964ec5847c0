package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The API's clock is known by its answers, refusals too, and a few seconds are none.
func TestAhead(t *testing.T) {
	var ahead time.Duration
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	c, err := New(Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, ahead = range []time.Duration{0, time.Hour, -time.Hour, 0} {
		_ = c.Do(t.Context(), "GET", "/", nil, nil) // it is refused
		if off := (c.Ahead() - ahead).Abs(); off > 10*time.Minute {
			t.Errorf("the clock is ahead by %v, want %v", c.Ahead(), ahead)
		}
	}
}
