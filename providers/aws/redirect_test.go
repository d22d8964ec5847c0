package aws

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A server that is asked for credentials cannot redirect the request to another server,
// with the SDK's client or with a user's client, even one that follows redirects.
func TestSearchForCredentialsFollowsNoRedirect(t *testing.T) {
	var mu sync.Mutex
	var strange []string
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		strange = append(strange, r.Method+" "+r.URL.Path)
	}))
	defer stranger.Close()
	asked := 0
	astray := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		http.Redirect(w, r, stranger.URL+"/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer astray.Close()

	dir := t.TempDir()
	token, bundle := filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem")
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	for name, text := range map[string][]byte{
		token: []byte("a-token-of-the-web"), bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}),
	} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	for name, env := range map[string]map[string]string{
		"a role by a token of the web": {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": astray.URL, "AWS_REGION": "us-east-1"},
		"a container's role":           {"AWS_CONTAINER_CREDENTIALS_FULL_URI": astray.URL + "/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "sk-container"},
		"a machine's role":             {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": astray.URL},
	} {
		for client, cfg := range map[string]Config{
			"the SDK's": {}, "the user's": {HTTPClient: &http.Client{}},
			"one that follows": {HTTPClient: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}},
			"with a bundle":    {},
		} {
			t.Run(name+" by "+client, func(t *testing.T) {
				for variable, value := range env {
					t.Setenv(variable, value)
				}
				if client == "with a bundle" {
					t.Setenv("AWS_CA_BUNDLE", bundle)
				}
				asked, strange = 0, nil
				d, err := cfg.Open(t.Context())
				if err == nil {
					d.Close()
					t.Error("there are credentials")
				}
				mu.Lock()
				defer mu.Unlock()
				if asked == 0 || len(strange) > 0 {
					t.Errorf("asked %d times; the other server was sent %q (%v)", asked, strange, err)
				}
			})
		}
	}
}
