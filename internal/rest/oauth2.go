package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// A token counts as expired tokenMargin before its end.
	tokenMargin = time.Minute
	// A token without an expiry counts as valid for tokenLife.
	tokenLife = 5 * time.Minute
)

// ClientCredentials signs with tokens of OAuth 2.0 (RFC 6749, section 4.4), which it gets from a path of tokens, a
// client without Auth. A token is used until shortly before it expires; concurrent callers that need the next one wait
// for the first to get it.
func ClientCredentials(tokens *Client, path, id, secret string) Auth {
	tokens.Hide(secret)
	mu := semaphore.NewWeighted(1)
	var token string
	var ends time.Time
	get := func(ctx context.Context) error {
		var out struct {
			AccessToken string      `json:"access_token"`
			ExpiresIn   json.Number `json:"expires_in"`
		}
		in := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
		began := time.Now()
		if err := tokens.Do(ctx, http.MethodPost, path, in, &out, Safe); err != nil {
			return err
		}
		if out.AccessToken == "" {
			return &Error{Method: http.MethodPost, Path: path, Err: fmt.Errorf("%w: it has no access_token", ErrAnswer)}
		}
		life := tokenLife
		if seconds, err := out.ExpiresIn.Int64(); err == nil && seconds > 0 {
			life = time.Duration(min(seconds, 1<<31)) * time.Second
		}
		token, ends = out.AccessToken, began.Add(life-min(tokenMargin, life/2))
		return nil
	}
	return Auth{
		Sign: func(req *http.Request, hide func(...string)) error {
			if err := mu.Acquire(req.Context(), 1); err != nil {
				return err
			}
			defer mu.Release(1)
			if token == "" || !time.Now().Before(ends) {
				if err := get(req.Context()); err != nil {
					return err
				}
			}
			hide(secret, token)
			tokens.Hide(token)
			req.Header.Set("Authorization", "Bearer "+token)
			return nil
		},
		Renew: func(refused *http.Request) bool {
			if mu.Acquire(refused.Context(), 1) != nil {
				return false
			}
			defer mu.Release(1)
			if refused.Header.Get("Authorization") == "Bearer "+token { // else another call has replaced it
				token = ""
			}
			return true
		},
	}
}
