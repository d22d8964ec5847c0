package all

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A timekeeper is the transport of a cloud's calls. It answers none, and notes how long each may take.
type timekeeper struct {
	mu   sync.Mutex
	left []time.Duration
}

func (k *timekeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	deadline, _ := r.Context().Deadline()
	k.left = append(k.left, time.Until(deadline))
	return nil, errors.New("nothing is sent in this test")
}

// ownTimeoutTests are the clouds whose calls are made by their own client: each has a TestRequestTimeout of its own.
var ownTimeoutTests = []string{"aws", "gcp", "kubernetes"}

// RequestTimeout bounds each try of each call of every cloud that has one.
func TestRequestTimeoutBoundsEachCall(t *testing.T) {
	for _, c := range set.Configs {
		if !reflect.ValueOf(c).FieldByName("RequestTimeout").IsValid() || slices.Contains(ownTimeoutTests, c.Name()) {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which ends the pauses between the tries
				for _, most := range []time.Duration{17 * time.Second, 17 * time.Minute} {
					k := &timekeeper{}
					config := reflect.New(reflect.TypeOf(c)).Elem()
					config.FieldByName("RequestTimeout").Set(reflect.ValueOf(most))
					config.FieldByName("HTTPClient").Set(reflect.ValueOf(&http.Client{Transport: k}))
					address := "https://" + c.Name() + ".invalid" // no other test's, as clients of one address share their pace
					for name, value := range map[string]string{
						"APIKey": "key", "APIToken": "token", "ClientID": "me", "ClientSecret": "key", "SecretKey": "key",
						"ProjectID": "6170692e-7363-616c-6577-61792e636f6d", "Endpoint": address, "MarketplaceEndpoint": address,
					} {
						if f := config.FieldByName(name); f.IsValid() {
							f.Set(reflect.ValueOf(value).Convert(f.Type()))
						}
					}
					d, err := config.Interface().(driver.Provider).Open(t.Context())
					if err == nil {
						for _, err = range d.Offers(t.Context(), driver.Query{}) {
						}
						d.Close()
					}
					if err == nil || len(k.left) == 0 {
						t.Fatalf("%d calls, %v", len(k.left), err)
					}
					for _, left := range k.left { // RunPod's old API has twice as long
						if left != most && !(c.Name() == "runpod" && left == 2*most) {
							t.Errorf("a call may take %v, not %v", left, most)
						}
					}
				}
			})
		})
	}
}
