package gcp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"strings"
	"sync"
	"testing"
)

const testAccount = "trainer@test-project.iam.gserviceaccount.com"

// rightKey is the service account's key. wrongKey belongs to no account.
var rightKey, wrongKey = sync.OnceValue(newKey), sync.OnceValue(newKey)

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// account returns a service account's key as JSON, with the fake as its token server.
func (f *fake) account(key *rsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.Marshal(row{
		"type": "service_account", "project_id": f.project, "client_email": testAccount, "private_key_id": "0123456789abcdef",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": f.URL + "/token",
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// privateLine returns one line of a private key, as the key's JSON has it.
func privateLine(t testing.TB, key *rsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "\n")[3]
}

func parseForm(body []byte) (url.Values, error) { return url.ParseQuery(string(body)) }

// isSigned checks a JSON Web Token: the service account's signature, the audience and
// the scope.
func isSigned(token, audience string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&rightKey().PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return false
	}
	var claims struct{ Iss, Aud, Scope string }
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(text, &claims) == nil && claims.Iss == testAccount && claims.Aud == audience && claims.Scope == cloudScope
}
