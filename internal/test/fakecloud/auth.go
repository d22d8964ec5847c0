package fakecloud

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Bearer accepts calls with the key in "Authorization: Bearer".
func Bearer(key string) func(*Call) bool { return KeyHeader("Authorization", "Bearer "+key) }

// KeyHeader accepts calls in which a header has this value.
func KeyHeader(name, value string) func(*Call) bool {
	return func(c *Call) bool { return c.Header.Get(name) == value }
}

// Basic accepts calls with a user and password.
func Basic(user, password string) func(*Call) bool {
	return func(c *Call) bool {
		u, p, _ := (&http.Request{Header: c.Header}).BasicAuth()
		return u == user && p == password
	}
}

// SigV4 accepts calls that are signed with an AWS secret key.
func SigV4(accessKeyID, secretKey string) func(*Call) bool {
	return func(c *Call) bool {
		m := sigV4.FindStringSubmatch(c.Header.Get("Authorization"))
		if m == nil || m[1] != accessKeyID {
			return false
		}
		return subtle.ConstantTimeCompare([]byte(m[4]), []byte(c.signature(secretKey, m[2], m[3]))) == 1
	}
}

var sigV4 = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)$`)

// signature returns the call's AWS Signature Version 4.
func (c *Call) signature(secret, scope, signed string) string {
	var headers strings.Builder
	for name := range strings.SplitSeq(signed, ";") {
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(strings.Join(c.Header.Values(name), ",")), " "))
	}
	path := c.Path
	if path == "" {
		path = "/"
	}
	query := strings.ReplaceAll(c.Query.Encode(), "+", "%20")
	canonical := strings.Join([]string{c.Method, path, query, headers.String(), signed, sum(string(c.Body))}, "\n")

	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	text := strings.Join([]string{"AWS4-HMAC-SHA256", c.Header.Get("X-Amz-Date"), scope, sum(canonical)}, "\n")
	return hex.EncodeToString(mac(key, text))
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func mac(key []byte, s string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(s))
	return h.Sum(nil)
}
