package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
)

// A provider's client has the API's address, its key and its limits, the form of its errors, and
// one method for each endpoint.
func Example() {
	acme := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer sk-acme":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == "POST":
			fmt.Fprint(w, `{"id": "i-1"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error": {"code": "no_such_server", "message": "There is no server i-2."}}`)
		}
	}))
	defer acme.Close()

	api, err := rest.New(rest.Config{
		BaseURL: acme.URL,
		Auth:    rest.Bearer("sk-acme"),
		Limit:   rest.NewLimiter(10, time.Second),
		Fault: func(status int, body []byte) *rest.Fault {
			var envelope struct {
				Error *struct{ Code, Message string }
			}
			if json.Unmarshal(body, &envelope) != nil || envelope.Error == nil {
				return nil
			}
			return &rest.Fault{Code: envelope.Error.Code, Message: envelope.Error.Message}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close()
	launches := rest.NewLimiter(1, 12*time.Second)
	ctx := context.Background()

	var server struct{ ID string }
	err = api.Do(ctx, "POST", "/servers", map[string]string{"type": "gpu-1"}, &server, rest.Limit(launches))
	fmt.Println(server.ID, err)

	err = api.Do(ctx, "GET", "/servers/i-2", nil, &server)
	fmt.Println(err)
	if e, ok := errors.AsType[*rest.Error](err); ok {
		fmt.Println(e.Status, e.Code, e.Ambiguous())
	}
	// Output:
	// i-1 <nil>
	// GET /servers/i-2: 404 Not Found: no_such_server: There is no server i-2.
	// 404 no_such_server false
}
