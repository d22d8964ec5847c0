package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"github.com/gputrain/gputrain/internal/secretref"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	keyVariable = "GOOGLE_APPLICATION_CREDENTIALS"
	cloudScope  = "https://www.googleapis.com/auth/cloud-platform"
)

// An identity identifies the caller to Google. It consists of funcs, which hold the
// credentials, so that nothing prints them.
type identity struct {
	// sign puts a token on a request, and passes its secrets to hide.
	sign func(req *http.Request, hide func(...string)) error
	// project returns the credentials' own project, or "".
	project func(ctx context.Context) string
}

// identity finds the credentials. It returns nil if calls need none.
func (c Config) identity(ctx context.Context, base http.RoundTripper) (*identity, error) {
	opts := &credentials.DetectOptions{
		Scopes: []string{cloudScope}, DisableAsyncRefresh: true,
		Client: &http.Client{Transport: base, Timeout: c.complete().RequestTimeout, CheckRedirect: stay}, // exchanges a key for a token
	}
	given, err := secretref.Resolve(ctx, string(c.Credentials))
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("Config.Credentials: %w", err)}
	}
	given = strings.TrimSpace(given)
	switch {
	case given != "":
		return fromKey(given, opts)
	case c.Endpoint != "" && !isGoogle(c.Endpoint), c.HTTPClient != nil && os.Getenv(keyVariable) == "":
		return nil, nil
	}
	found, err := credentials.DetectDefault(opts)
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("no usable credentials: %w", err),
			Hint: "set " + keyVariable + " or Config.Credentials to a service account's key, or run: gcloud auth application-default login"}
	}
	return newIdentity(found, nil), nil
}

// isGoogle reports whether an address is one of Google's own, which may get any token.
func isGoogle(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "https" && strings.HasSuffix(u.Hostname(), ".googleapis.com")
}

// kinds are the kinds of credentials that Config.Credentials may be. Others name programs to
// run and addresses to ask; only the user's own variable may name those.
var kinds = []credentials.CredType{credentials.ServiceAccount, credentials.AuthorizedUser, credentials.ImpersonatedServiceAccount}

// fromKey reads Config.Credentials. Its errors contain no text of it.
func fromKey(given string, opts *credentials.DetectOptions) (*identity, error) {
	invalid := func(why string) error {
		return &driver.Error{Kind: driver.ErrAuth, Err: errors.New("Config.Credentials: " + why),
			Hint: "set it to the JSON of a service account's key, or to the path of a file with it"}
	}
	text := []byte(given)
	if !strings.HasPrefix(given, "{") {
		var err error
		if text, err = os.ReadFile(given); err != nil {
			return nil, invalid("cannot read the file: " + reason(err))
		}
	}
	var key struct {
		Type         string `json:"type"`
		PrivateKey   string `json:"private_key"`
		PrivateKeyID string `json:"private_key_id"`
		ClientSecret string `json:"client_secret"`
		RefreshToken string `json:"refresh_token"`
	}
	if json.Unmarshal(text, &key) != nil {
		return nil, invalid("it is not JSON")
	}
	for _, kind := range kinds {
		if string(kind) != key.Type {
			continue
		}
		found, err := credentials.NewCredentialsFromJSON(kind, text, opts)
		if err != nil {
			return nil, invalid("the " + key.Type + " is incomplete")
		}
		return newIdentity(found, []string{key.PrivateKey, key.PrivateKeyID, key.ClientSecret, key.RefreshToken}), nil
	}
	return nil, invalid(fmt.Sprintf("type %q is not one of %q; for others set the variable %s", key.Type, kinds, keyVariable))
}

// reason returns what is wrong with a file, without the file's name, which may be a key by
// mistake.
func reason(err error) string {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err.Error()
	}
	return "unknown"
}

func newIdentity(found *auth.Credentials, secrets []string) *identity {
	return &identity{
		sign: func(req *http.Request, hide func(...string)) error {
			hide(secrets...)
			token, err := found.Token(req.Context())
			if err != nil {
				return newTokenError(err)
			}
			hide(token.Value)
			req.Header.Set("Authorization", "Bearer "+token.Value)
			if quota, err := found.QuotaProjectID(req.Context()); err == nil && quota != "" {
				req.Header.Set("X-Goog-User-Project", quota)
			}
			return nil
		},
		project: func(ctx context.Context) string {
			id, err := found.ProjectID(ctx)
			if err != nil {
				return ""
			}
			return id
		},
	}
}

// A tokenError is the reason why there is no token.
type tokenError struct {
	text    string
	refused bool  // the credentials are refused; the server is not in trouble
	odd     bool  // the answer is unreadable, such as a proxy's page
	ended   error // the context's error, if that is the reason
}

func (e *tokenError) Error() string { return "no token: " + e.text }
func (e *tokenError) Unwrap() error { return e.ended }

func newTokenError(err error) *tokenError {
	e := &tokenError{text: err.Error()}
	_, cut := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	e.odd = cut || shape
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			e.ended = ended
		}
	}
	if said, ok := errors.AsType[*auth.Error](err); ok && said.Response != nil {
		status := said.Response.StatusCode
		e.refused = status >= 400 && status < 500 && status != http.StatusTooManyRequests
	}
	return e
}
