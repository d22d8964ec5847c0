package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		name                                string
		method, path                        string
		in                                  any
		opts                                []Option
		wantURL, wantType, wantBody, accept string
	}{
		{"nothing", "GET", "/servers/", nil, nil, "/v1/servers/", "", "", "application/json"},
		{"query", "GET", "/servers", nil, []Option{Query(url.Values{"tag": {"a=b", "c&d"}})}, "/v1/servers?tag=a%3Db&tag=c%26d", "", "", "application/json"},
		{"escaped", "GET", "/servers/" + url.PathEscape("a/b c"), nil, nil, "/v1/servers/a%2Fb%20c", "", "", "application/json"},
		{"JSON", "POST", "/servers", map[string]any{"n": 1, "m": int64(math.MaxInt64)}, nil, "/v1/servers", "application/json", `{"m":9223372036854775807,"n":1}`, "application/json"},
		{"empty object", "POST", "/servers", struct{}{}, nil, "/v1/servers", "application/json", `{}`, "application/json"},
		{"form", "POST", "/token", url.Values{"a": {"b c"}}, nil, "/v1/token", "application/x-www-form-urlencoded", "a=b+c", "application/json"},
		{"text", "PATCH", "/user_data", "#cloud-config", nil, "/v1/user_data", "text/plain; charset=utf-8", "#cloud-config", "application/json"},
		{"headers", "POST", "/servers", struct{}{}, []Option{Header("content-type", "application/merge-patch+json"), Header("Accept", "text/plain")}, "/v1/servers", "application/merge-patch+json", `{}`, "text/plain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := served(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got := fmt.Sprint(r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(body), r.Header.Get("Accept"))
				if want := fmt.Sprint(tt.method, tt.wantURL, tt.wantType, tt.wantBody, tt.accept); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if ua := r.UserAgent(); !strings.HasPrefix(ua, "gputrain/") {
					t.Errorf("User-Agent is %q", ua)
				}
			})
			if err := c.Do(bounded(t), tt.method, tt.path, tt.in, nil, tt.opts...); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadRequestsAreNotSent(t *testing.T) {
	c, api := scripted(t, Config{}, replies(200, "{}"))
	for _, tt := range []struct {
		path string
		in   any
	}{{"servers", nil}, {"", nil}, {"/servers?key=" + secret, nil}, {"/servers#a", nil}, {"/%zz", nil}, {"/servers", func() {}}, {"/servers", math.Inf(1)}} {
		if e := failure(t, c.Do(t.Context(), "POST", tt.path, tt.in, nil)); e.Ambiguous() || e.Status != 0 {
			t.Errorf("%q: %v", tt.path, e)
		}
	}
	if api.attempts() != 0 {
		t.Errorf("%d requests were sent", api.attempts())
	}
}

func TestAnswer(t *testing.T) {
	const html = "text/html; charset=utf-8"
	type server struct{ ID string }
	for _, tt := range []struct {
		name      string
		status    int
		kind      string
		body      string
		out       any
		opts      []Option
		want      string // out, as %v has it
		wantError string // a part of it, or "" for none
	}{
		{"object", 200, "", `{"id":"a","unknown":[1]}`, &server{}, nil, "&{a}", ""},
		{"blanks around", 200, "", "\r\n {\"id\":\"a\"}\n\n", &server{}, nil, "&{a}", ""},
		{"problem", 200, "application/problem+json", `{"id":"a"}`, &server{}, nil, "&{a}", ""},
		{"wrong content type", 200, "text/plain", `{"id":"a"}`, &server{}, nil, "&{a}", ""},
		{"large number", 200, "", `{"n":12345678901234567890}`, &map[string]any{}, nil, "&map[n:12345678901234567890]", ""},
		{"raw", 200, "", `{"a": [1]}`, &json.RawMessage{}, nil, fmt.Sprint(&json.RawMessage{}), ""},
		{"null", 200, "", `null`, &server{}, nil, "&{}", ""},
		{"ignored", 200, "", `not looked at`, nil, nil, "<nil>", ""},
		{"ignored and empty", 204, "", ``, nil, nil, "<nil>", ""},
		{"empty where it may be", 204, "", ``, &server{"before"}, []Option{EmptyAnswer}, "&{before}", ""},
		{"full where it may be empty", 202, "", `{"id":"a"}`, &server{}, []Option{EmptyAnswer}, "&{a}", ""},
		{"bare text", 201, "text/plain", "deadc0de\n", new(string), nil, "deadc0de", ""},
		{"quoted text", 201, "", ` "deadc0de" `, new(string), nil, "deadc0de", ""},

		{"empty", 200, "application/json", ``, &server{}, nil, "", "it is empty"},
		{"no content", 204, "", ``, &server{}, nil, "", "204 No Content: the answer is not understood (no content type, 0 bytes): it is empty"},
		{"blank", 200, "", " \n", &server{}, nil, "", "it is empty"},
		{"page", 200, html, "<html><title>Login</title>", &server{}, nil, "", `200 OK: the answer is not understood (text/html; charset=utf-8, 26 bytes): it is an HTML page: "<html><title>Login</title>"`},
		{"page instead of text", 200, html, "<html>", new(string), nil, "", "it is an HTML page"},
		{"page where nothing is due", 200, html, "<html>", nil, nil, "", "it is an HTML page"},
		{"unfinished text", 200, "", `"dead`, new(string), nil, "", "not understood"},
		{"no text", 200, "", "", new(string), nil, "", "it is empty"},
		{"text instead of JSON", 200, "text/plain", "API requests too frequent", &server{}, nil, "", `"API requests too frequent"`},
		{"breaks off", 200, "", `{"id":"a`, &server{}, nil, "", "it is not JSON: unexpected EOF"},
		{"trailing", 200, "", `{"id":"a"}{"id":"b"}`, &server{}, nil, "", "there is more after its JSON"},
		{"trailing garbage", 200, "", `{"id":"a"}]`, &server{}, nil, "", "there is more after its JSON"},
		{"other shape", 200, "", `{"id":7}`, &server{}, nil, "", "cannot unmarshal number"},
		{"list instead of object", 200, "", `[]`, &server{}, nil, "", "cannot unmarshal array"},
		{"number too large", 200, "", `{"n":9999999999}`, &struct{ N int32 }{}, nil, "", "cannot unmarshal number"},
		{"too large", 200, "", `{"id":"` + strings.Repeat("a", 300) + `"}`, &server{}, nil, "", "it is larger than 200 bytes"},
		{"exactly large", 200, "", `{"id":"` + strings.Repeat("a", 191) + `"}`, &server{}, nil, "&{" + strings.Repeat("a", 191) + "}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := served(t, Config{MaxBody: 200}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if tt.kind != "" {
					w.Header().Set("Content-Type", tt.kind)
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			err := c.Do(bounded(t), "POST", "/servers", nil, tt.out, tt.opts...)
			if tt.wantError != "" {
				if e := failure(t, err); !strings.Contains(e.Error(), tt.wantError) || !errors.Is(e, ErrAnswer) || !e.Ambiguous() || e.Status != tt.status {
					t.Errorf("the error is %v, Ambiguous is %v", e, e.Ambiguous())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := tt.out.(*string); ok {
				tt.out = *s
			}
			if raw, ok := tt.out.(*json.RawMessage); ok {
				if string(*raw) != tt.body {
					t.Errorf("raw is %s", *raw)
				}
				return
			}
			if got := fmt.Sprint(tt.out); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// An answer that says that it is too large is not read to its end, which may never come.
func TestLargeAnswerIsNotRead(t *testing.T) {
	c := served(t, Config{Attempts: 3}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(65<<20))
		if r.Method == "HEAD" {
			return
		}
		w.Write(bytes.Repeat([]byte("x"), excerptFrom))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	e := failure(t, c.Do(bounded(t), "GET", "/servers", nil, &struct{}{}))
	if !errors.Is(e, ErrAnswer) || !strings.Contains(e.Error(), "68157440 bytes): it is larger than 67108864 bytes") || !strings.HasPrefix(e.Body, "xxx") {
		t.Errorf("the error is %v, with %.10q", e, e.Body)
	}
	if err := c.Do(bounded(t), "HEAD", "/servers", nil, nil, EmptyAnswer); err != nil {
		t.Errorf("HEAD, whose answer has no body: %v", err)
	}
}

func TestAnswerHeader(t *testing.T) {
	c, _ := scripted(t, Config{}, replies(200, "[]", "X-Total-Count", "42"))
	var h http.Header
	var out []int
	if err := c.Do(t.Context(), "GET", "/servers", nil, &out, AnswerHeader(&h)); err != nil || h.Get("X-Total-Count") != "42" {
		t.Errorf("%v, %v", h, err)
	}
}

// These are the clouds' error envelopes, as documented.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"code and message in error", 400, `{"error":{"code":"global/quota-exceeded","message":"Quota exceeded."}}`, "400 Bad Request: global/quota-exceeded: Quota exceeded."},
		{"text in error", 400, `{"error":"Invalid plan chosen.","status":400}`, "400 Bad Request: Invalid plan chosen."},
		{"problem", 422, `{"title":"Unprocessable","status":422,"detail":"additional properties 'x' not allowed"}`, "422 Unprocessable Entity: additional properties 'x' not allowed"},
		{"message", 403, "{\"message\":\"Not\\n authenticated\"}", "403 Forbidden: Not authenticated"},
		{"code and message", 503, `{"code":"service_unavailable","message":"No capacity available"}`, "503 Service Unavailable: service_unavailable: No capacity available; it may have taken effect"},
		{"200 with success false", 200, `{"success":false,"error":"no_such_ask","msg":"gone"}`, "200 OK: no_such_ask"},
		{"200 with a status", 200, `{"error":"Hostnode unavailable","status":400}`, "400 Bad Request: Hostnode unavailable"},
		{"text", 429, "API requests too frequent", `429 Too Many Requests: "API requests too frequent"`},
		{"page", 502, "<html>\n<title>Bad gateway</title>", `502 Bad Gateway: "<html>\n<title>Bad gateway</title>"; it may have taken effect`},
		{"nothing", 404, "", "404 Not Found"},
		{"unknown status", 555, "", "555; it may have taken effect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := scripted(t, Config{Fault: readFault, Attempts: 1}, replies(tt.status, tt.body, "X-Request-ID", "r-1"))
			e := failure(t, c.Do(t.Context(), "POST", "/servers", nil, nil))
			if want := "POST /servers: " + tt.want; e.Error() != want {
				t.Errorf("got  %v\nwant %v", e, want)
			}
			if e.RequestID != "r-1" || e.Body != tt.body {
				t.Errorf("request %q, body %q", e.RequestID, e.Body)
			}
		})
	}
}

func TestBodyOfAnErrorIsBounded(t *testing.T) {
	c, _ := scripted(t, Config{Attempts: 1}, replies(500, strings.Repeat("é", 1<<20)))
	e := failure(t, c.Do(t.Context(), "GET", "/servers", nil, nil))
	if len(e.Body) > maxExcerpt || len(e.Body) < maxExcerpt-1 || strings.Trim(e.Body, "é") != "" || len(e.Error()) > 2*maxQuote {
		t.Errorf("%d bytes of body, %d of text", len(e.Body), len(e.Error()))
	}
}

// Whatever the answer, a call returns a result of the wanted type or an error without a secret.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "application/json", `{"id":"a"}`)
	f.Add(200, "text/html", "<html>")
	f.Add(200, "", "")
	f.Add(400, "application/json", `{"error":{"code":"x","message":"`+secret+`"}}`)
	f.Add(200, "application/json", `{"success":false,"error":["`+secret+`"],"password":"hunter2hunter2`)
	f.Add(503, "text/plain", `{"password" : "hunter2hunter2\n\u0041"}`)
	f.Add(200, "application/json", `{"id":1e400}`)
	f.Add(302, secret, secret[:8])
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		if status < 200 || status > 999 {
			return
		}
		cfg := Config{Attempts: 1, MaxBody: 1 << 10, Fault: readFault, Auth: Bearer(secret), SecretFields: []string{"password"}}
		c, _ := scripted(t, cfg, replies(status, body, "Content-Type", kind, "X-Request-Id", kind, "Location", body))
		var out struct{ ID string }
		err := c.Do(t.Context(), "POST", "/servers", nil, &out)
		if err == nil {
			if status > 299 || !json.Valid([]byte(body)) || len(body) > 1<<10 {
				t.Errorf("the status %d with %q counts as a success", status, body)
			}
			return
		}
		e := failure(t, err)
		if said := everything(e); strings.Contains(said, secret) || len(e.Body) > maxExcerpt {
			t.Errorf("%d bytes of body: %s", len(e.Body), said)
		}
	})
}
