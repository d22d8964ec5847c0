package massedcompute

import (
	"testing"
)

// A fault can be read from any body.
func FuzzFault(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"message":"Valid Token"}`, `{"error":"x"}`, `{"error":{"message":"x"}}`, `{"error":null}`, `{"error":[1]}`, `[]`, `null`, `{"message":7}`} {
		f.Add(400, []byte(s))
		f.Add(200, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if said := fault(status, body); said != nil && said.Message == "" {
			t.Errorf("%q of %d is a failure that says nothing", body, status)
		}
	})
}
