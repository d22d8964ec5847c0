package gcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/auth/credentials"

	"github.com/gputrain/gputrain/providers/driver"
)

// Any credentials are either of a kind that runs no program, or rejected by an error
// that does not show them.
func FuzzFromKey(f *testing.F) {
	for _, s := range []string{
		`{"type":"service_account","private_key":"hunter2hunter2","client_email":"a@b","project_id":"p"}`,
		`{"type":"authorized_user","client_id":"a","client_secret":"hunter2hunter2","refresh_token":"hunter2hunter2"}`,
		`{"type":"external_account","credential_source":{"executable":{"command":"touch hunter2hunter2"}}}`,
		`{"type":"impersonated_service_account","source_credentials":{"type":"external_account"},"service_account_impersonation_url":"hunter2hunter2"}`,
		`{"type":7}`, `{`, "hunter2hunter2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, given string) {
		if !strings.HasPrefix(given, "{") {
			return // a file's name, not a key
		}
		_, err := fromKey(given, &credentials.DetectOptions{Scopes: []string{cloudScope}})
		if err == nil {
			var key struct {
				Type string `json:"type"`
			}
			if json.Unmarshal([]byte(given), &key) != nil || key.Type == "external_account" {
				t.Errorf("%q was taken", given)
			}
			return
		}
		if !errors.Is(err, driver.ErrAuth) || strings.Contains(err.Error(), "hunter2hunter2") {
			t.Errorf("got %v", err)
		}
	})
}
