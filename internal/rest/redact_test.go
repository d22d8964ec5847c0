package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/gputrain/gputrain/internal/credential"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

// everything returns all that an error shows: the texts of its tree, and its fields.
func everything(err error) string {
	var b strings.Builder
	var walk func(error)
	walk = func(err error) {
		if err == nil {
			return
		}
		fmt.Fprintf(&b, "%v\n%+v\n%#v\n%q\n", err, err, err, err.Error())
		if j, jerr := json.Marshal(err); jerr == nil {
			b.Write(j)
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		}
	}
	walk(err)
	return b.String()
}

// shows fails the test if a text shows a secret, in any form.
func shows(t *testing.T, what, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		for _, form := range append(slices.Collect(credential.Forms(s)), base64.StdEncoding.EncodeToString([]byte(s))) {
			if strings.Contains(text, form) {
				t.Errorf("%s shows %q: %s", what, form, text)
			}
		}
	}
}

// Errors pass on no control characters of an API's text, and these do not hide secrets.
func TestErrorsArePrintable(t *testing.T) {
	const said = "\x1b]0;pwned\a\x1b[2Kno \u202equota\u009b1A sk-\x1b[0mrest-key"
	c := served(t, Config{
		Auth:  Bearer("sk-rest-key"),
		Fault: func(_ int, body []byte) *Fault { return &Fault{Code: string(body), Message: string(body)} },
	}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req\u009b2J")
		w.WriteHeader(400)
		io.WriteString(w, said)
	})
	err := c.Do(bounded(t), "GET", "/servers", nil, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatal(err)
	}
	for _, text := range []string{e.Error(), e.Code, e.Message, e.Body, e.RequestID} {
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) || strings.Contains(text, "rest-key") {
			t.Errorf("%q", text)
		}
	}
	if !strings.Contains(e.Error(), "no quota [redacted]") {
		t.Errorf("%q", e)
	}
}

// Nothing that is printed shows a credential, whatever the API answers: not clients and their parts, not errors, not
// the log.
func TestNothingShowsASecret(t *testing.T) {
	const password, privateKey = "hunter2 \"quoted\"/é", "-----BEGIN KEY-----\nAAAAsecretline\n-----END KEY-----\n"
	inJSON, _ := json.Marshal(password)
	echo := func(key string) string {
		return fmt.Sprintf(`{"message":"bad key %s or nested password","url":"https://x/?k=%s","password":%s,"user_data":%q,"nested":"{\"password\":\"%s\"}"}`,
			key, url.QueryEscape(key), inJSON, privateKey, "nested password")
	}
	tokens := newTokenServer(t)
	for name, auth := range map[string]Auth{
		"bearer": Bearer(secret),
		"header": HeaderKey("api_key", secret),
		"query":  QueryKey("api_key", secret),
		"oauth2": ClientCredentials(tokens.client, "/oauth2/token", "id", secret),
	} {
		key := func(r *http.Request) string {
			return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("api_key") + r.URL.Query().Get("api_key")
		}
		for _, tt := range []struct {
			name   string
			answer func(w http.ResponseWriter, key string)
		}{
			{"refusal", func(w http.ResponseWriter, key string) { w.WriteHeader(403); io.WriteString(w, echo(key)) }},
			{"fault", func(w http.ResponseWriter, key string) {
				io.WriteString(w, `{"success":false,"message":"`+key+`"}`)
			}},
			{"page", func(w http.ResponseWriter, key string) { io.WriteString(w, "<html>"+key) }},
			{"text", func(w http.ResponseWriter, key string) { w.WriteHeader(500); io.WriteString(w, key) }},
			{"header", func(w http.ResponseWriter, key string) {
				w.Header().Set("X-Request-Id", key)
				w.Header().Set("Content-Type", key)
			}},
			{"other shape", func(w http.ResponseWriter, key string) {
				io.WriteString(w, `{"id":7,"x":"`+key+`","password":"`+password[:7]+`"}`)
			}},
			{"redirect", func(w http.ResponseWriter, key string) {
				w.Header().Set("Location", "https://elsewhere.test/"+key+"?k="+key)
				w.WriteHeader(302)
			}},
			{"broken off", func(w http.ResponseWriter, key string) {
				w.Header().Set("Content-Length", "1000")
				io.WriteString(w, `{"password":"cut pass`)
			}},
			{"a number", func(w http.ResponseWriter, _ string) {
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, `{"error":"no such machine; it had 8675309123","machine":{"Password": 8675309123}}`)
			}},
			{"broken off within", func(w http.ResponseWriter, key string) {
				w.Header().Set("Content-Length", "1000")
				io.WriteString(w, "your key is "+key[:len(key)-1])
			}},
			{"not HTTP", func(w http.ResponseWriter, key string) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				io.WriteString(conn, "your key is "+key+"\r\n\r\n")
			}},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				var log bytes.Buffer
				cfg := Config{
					Auth: auth, Fault: readFault, Attempts: 1, SecretFields: []string{"password"},
					Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				}
				c := served(t, cfg, func(w http.ResponseWriter, r *http.Request) {
					if key(r) == "" {
						t.Error("the call is not signed")
					}
					tt.answer(w, key(r))
				})
				c.Hide(privateKey)
				var out struct{ ID string }
				e := failure(t, c.Do(bounded(t), "POST", "/servers", nil, &out))
				secrets := []string{secret, password, privateKey, "AAAAsecretline", "nested password", "cut pass", "8675309123"}
				shows(t, "the error", everything(e), append(secrets, tokens.issued()...)...)
				shows(t, "the log", log.String(), append(secrets, tokens.issued()...)...)
				if strings.Contains(everything(e), secret[:len(secret)-1]) {
					t.Errorf("the error shows most of the key: %v", e)
				}
				if log.Len() == 0 {
					t.Error("nothing was logged")
				}
				holder := struct {
					private *Client
					value   Client
					config  Config
					auth    Auth
				}{c, *c, cfg, auth}
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
					for _, v := range []any{c, *c, cfg, auth, holder, &holder} {
						shows(t, verb, fmt.Sprintf(verb, v), append(secrets, tokens.issued()...)...)
					}
				}
			})
		}
	}
}

// The user's transport may put the URL into its errors. errors.Is still finds them.
func TestCauseWithASecret(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := scripted(t, Config{Auth: QueryKey("key", secret)}, func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("proxy: %s: %w", r.URL, io.ErrClosedPipe)
		})
		e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil, Query(url.Values{"a": {"b"}})))
		shows(t, "the error", everything(e), secret)
		if !errors.Is(e, io.ErrClosedPipe) || !strings.Contains(e.Error(), "proxy: https://api.acme.test/v1/servers?a=b&key=[redacted]") {
			t.Errorf("the error is %v", e)
		}
	})
}

func TestRedact(t *testing.T) {
	c := newClient(t, Config{BaseURL: "https://api.acme.test"})
	c.Hide("key", "a secret", "a secret that is longer", "")
	for text, want := range map[string]string{
		"":                                  "",
		"key":                               "key", // too short to be one
		"a secret that is longer, a secret": "[redacted], [redacted]",
		"a+secret a%20secret":               "[redacted] [redacted]",
	} {
		if got := c.Redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := c.redact("it begins: a secret that is lo", true); got != "it begins: " {
		t.Errorf("a cut text becomes %q", got)
	}
	if got := c.redact("it begins: a sec", true); got != "it begins: " {
		t.Errorf("a cut text becomes %q", got)
	}
}

// If a long body was cut, the beginning of a secret at its end is not shown either, even if other secrets have
// shortened the text.
func TestLongBodyOfSecrets(t *testing.T) {
	var counted strings.Builder
	for i := range 250 {
		fmt.Fprintf(&counted, "%04d", i)
	}
	for _, key := range []string{counted.String(), strings.Repeat("0123456789", 100)} { // the second may begin at any offset
		c, _ := scripted(t, Config{Auth: Bearer(key), Attempts: 1}, replies(500, "keys: "+strings.Repeat(key, 100)))
		e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil))
		if strings.Contains(everything(e), key[:5]) || !strings.HasPrefix(e.Body, "keys: ") {
			t.Errorf("the body is %s", e.Body)
		}
	}
}

// Every attempt has a log line at debug level, without the query.
func TestLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		handler := func(level slog.Level) *slog.Logger {
			return slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		}
		steps := []step{fails(reset), replies(503, `{"code":"down"}`, "X-Request-Id", "r1"), replies(200, "{}")}
		c, _ := scripted(t, Config{Logger: handler(slog.LevelDebug), Fault: readFault}, steps...)
		if err := c.Do(t.Context(), "GET", "/servers", nil, nil, Query(url.Values{"token": {"x"}})); err != nil {
			t.Fatal(err)
		}
		want := `level=DEBUG msg="API call" method=GET path=/servers status=0 elapsed=0s attempt=1 code="" request="" error="read tcp: connection reset by peer"
level=DEBUG msg="API call" method=GET path=/servers status=503 elapsed=0s attempt=2 code=down request=r1
level=DEBUG msg="API call" method=GET path=/servers status=200 elapsed=0s attempt=3
`
		if log.String() != want {
			t.Errorf("got\n%swant\n%s", &log, want)
		}
		log.Reset()
		c, _ = scripted(t, Config{Logger: handler(slog.LevelInfo)}, replies(200, ""))
		if err := c.Do(t.Context(), "GET", "/servers", nil, nil); err != nil || log.Len() > 0 {
			t.Errorf("%v, %s", err, &log)
		}
	})
}

// A tokenServer hands out tokens.
type tokenServer struct {
	client *Client
	mu     sync.Mutex
	tokens []string
	life   string
}

func newTokenServer(t testing.TB) *tokenServer {
	s := &tokenServer{life: "3600"}
	s.client, _ = scripted(t, Config{Fault: readFault}, s.token)
	return s
}

func (s *tokenServer) token(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	if form.Get("grant_type") != "client_credentials" || form.Get("client_id") != "id" || form.Get("client_secret") != secret {
		return replies(401, `{"code":"unauthorized_request","message":"Invalid client id or client secret `+form.Get("client_secret")+`"}`)(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, fmt.Sprintf("ey.token-%d", len(s.tokens)))
	return replies(200, fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":%s}`, s.tokens[len(s.tokens)-1], s.life))(r)
}

func (s *tokenServer) issued() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.tokens...)
}
