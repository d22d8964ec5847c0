package cloud

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// If the first answer to an end is lost and the repeat finds nothing, the machine is gone.
func TestEndThatWasDoneIsDone(t *testing.T) {
	calls := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer api.Close()
	c, err := rest.New(rest.Config{BaseURL: api.URL, FirstWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Do(t.Context(), "DELETE", "/machines/1", nil, nil)
	d := New("test", &memory{}, Options{})
	if calls != 2 || !d.isGone(err) || !(Keys{}).gone(err) {
		t.Errorf("after %d calls %v is not taken for gone", calls, err)
	}
	if StatusKind(err) != driver.ErrUnavailable {
		t.Error("of a create that would leave open whether there is one")
	}
}
