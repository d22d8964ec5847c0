package fakecloud

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/apifacts"
)

// A trial is a request to a contract, and a part of the complaint: empty if it is allowed.
type trial struct {
	name, method, path string
	body               string
	complaint          string
}

// call returns the request. Its body is JSON unless it is a form.
func (tr trial) call(t *testing.T) *Call {
	t.Helper()
	u, err := url.Parse(tr.path)
	if err != nil {
		t.Fatal(err)
	}
	c := &Call{N: 1, Method: tr.method, Path: u.EscapedPath(), Query: u.Query(), Header: http.Header{}, Body: []byte(tr.body)}
	switch {
	case strings.HasPrefix(tr.body, "Action="):
		c.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	case tr.body != "":
		c.Header.Set("Content-Type", "application/json")
	}
	return c
}

func try(t *testing.T, contract Contract, trials []trial) {
	t.Helper()
	for _, tr := range trials {
		t.Run(tr.name, func(t *testing.T) {
			c := tr.call(t)
			err := contract.Find(c)
			if err == nil {
				err = contract.Check(c)
			}
			expect(t, err, tr.complaint)
		})
	}
}

func expect(t *testing.T, err error, complaint string) {
	t.Helper()
	switch {
	case complaint == "" && err != nil:
		t.Errorf("refused: %v", err)
	case complaint != "" && err == nil:
		t.Errorf("allowed; it was to be refused with %q", complaint)
	case complaint != "" && !strings.Contains(err.Error(), complaint):
		t.Errorf("refused with %q, not with %q", err, complaint)
	}
}

// answers encodes each answer to the request, and compares the complaint.
func answers(t *testing.T, contract Contract, request trial, trials map[string]struct {
	answer    Answer
	complaint string
}) {
	t.Helper()
	for name, tr := range trials {
		t.Run(name, func(t *testing.T) {
			c := request.call(t)
			if err := contract.Find(c); err != nil {
				t.Fatal(err)
			}
			_, err := contract.Encode(c, tr.answer)
			expect(t, err, tr.complaint)
		})
	}
}

const runpodFile = "../../../providers/runpod/testdata/api.json"

const podBody = `{"name":"p","image":"i","cloud":"SECURE","gpu":{"id":"NVIDIA L4","count":1}}`

func TestOpenAPIRequests(t *testing.T) {
	for name, read := range map[string]func(*testing.T) Contract{
		"facts": func(t *testing.T) Contract { return OpenAPI(t, runpodFile) },
		"3.0":   func(t *testing.T) Contract { return vendors(t, "runpod/rest-v2.lifecycle.derived.openapi30.json") },
		"3.1":   func(t *testing.T) Contract { return vendors(t, "runpod/rest-v2.lifecycle.derived.openapi.json") },
	} {
		t.Run(name, func(t *testing.T) {
			try(t, read(t), []trial{
				{"good", "POST", "/v2/pods", podBody, ""},
				{"unknown path", "GET", "/v2/podz", "", "unknown path"},
				{"wrong method", "PATCH", "/v2/pods", podBody, "no PATCH there"},
				{"misspelt field", "POST", "/v2/pods", strings.Replace(podBody, "image", "imagee", 1), "imagee"},
				{"misspelt field within", "POST", "/v2/pods", strings.Replace(podBody, "count", "cout", 1), "cout"},
				{"wrong type", "POST", "/v2/pods", strings.Replace(podBody, "1}", `"1"}`, 1), "/gpu/count"},
				{"wrong enum", "POST", "/v2/pods", strings.Replace(podBody, "SECURE", "SAFE", 1), "/cloud"},
				{"required field missing", "POST", "/v2/pods", strings.Replace(podBody, `"name":"p",`, "", 1), "name"},
				{"no body", "POST", "/v2/pods", "", "missing"},
				{"no JSON", "POST", "/v2/pods", "{", "body"},
				{"good query", "GET", "/v2/catalog/gpus?include=AVAILABILITY&product=POD", "", ""},
				{"unknown query parameter", "GET", "/v2/catalog/gpus?includes=AVAILABILITY", "", "unknown query parameter includes"},
				{"wrong query parameter", "GET", "/v2/catalog/gpus?product=POT", "", "query parameter product"},
				{"body where there is none", "DELETE", "/v2/pods/p1", `{"force":true}`, "the operation has no body"},
				{"empty object where there is none", "DELETE", "/v2/pods/p1", `{}`, ""},
			})
		})
	}
}

// These two descriptions allow unknown fields. The kit refuses them.
func TestOpenAPIClosesWhatIsNotOpen(t *testing.T) {
	try(t, vendors(t, "lambda/lambda-openapi-1.5.3.generator-normalised.yaml"), []trial{
		{"good", "POST", "/api/v1/ssh-keys", `{"name":"k","public_key":"ssh-ed25519 AAAA"}`, ""},
		{"misspelt", "POST", "/api/v1/ssh-keys", `{"name":"k","publickey":"ssh-ed25519 AAAA"}`, "/publickey: unknown field"},
	})
	try(t, vendors(t, "vastai/vast.openapi.yaml", apifacts.TrailingSlash), []trial{
		{"slash", "GET", "/api/v0/instances/1/", "", ""},
		{"no slash", "GET", "/api/v0/instances/1", "", "unknown path"},
		{"not a number", "GET", "/api/v0/instances/one/", "", "path parameter id"},
	})
}

func TestOpenAPIAnswers(t *testing.T) {
	type tr = struct {
		answer    Answer
		complaint string
	}
	o := OpenAPI(t, runpodFile)
	problem := map[string]any{"title": "Unauthorized", "status": 401, "detail": "missing bearer token"}
	answers(t, o, trial{method: "GET", path: "/v2/registries"}, map[string]tr{
		"good":           {Reply(200, map[string]any{"registries": []any{map[string]string{"id": "r", "name": "n"}}}), ""},
		"invented field": {Reply(200, map[string]any{"registries": []string{}, "count": 0}), "/count: unknown field"},
		"wrong type":     {Reply(200, map[string]any{"registries": "none"}), "/registries"},
		"no body":        {Reply(200, nil), "Content-Type"},
		"problem":        {Reply(401, problem), ""},
	})
	a, err := o.Encode(&Call{Op: "GET /v2/registries"}, Reply(401, problem))
	if got := a.Header.Get("Content-Type"); err != nil || got != "application/problem+json" {
		t.Errorf("a problem is sent as %s: %v", got, err)
	}
	answers(t, o, trial{method: "DELETE", path: "/v2/pods/p1"}, map[string]tr{
		"no body":  {Reply(204, nil), ""},
		"any body": {Reply(204, "gone"), "has no body"},
	})
}

func TestOpenAPIStatus(t *testing.T) {
	o := OpenAPI(t, "testdata/keys.json")
	answers(t, o, trial{method: "DELETE", path: "/api/v1/ssh-keys/k1"}, map[string]struct {
		answer    Answer
		complaint string
	}{
		"unknown":      {Reply(429, "slow down"), "status 429 is not one of 200, 400, 401, 403"},
		"known anyway": {Undescribed(429, "slow down"), ""},
	})
}

// The answers that were recorded from Lambda's API match its contract.
func TestLambdaAnswers(t *testing.T) {
	o := vendors(t, "lambda/lambda-lifecycle-3.0.derived.json", apifacts.AllowFields("/components/schemas/Instance", "is_reserved"))
	for file, op := range map[string]string{
		"launch": "POST /api/v1/instance-operations/launch", "instances": "GET /api/v1/instances", "instance_get": "GET /api/v1/instances/{id}",
		"terminate": "POST /api/v1/instance-operations/terminate", "restart": "POST /api/v1/instance-operations/restart",
		"instance_types": "GET /api/v1/instance-types", "ssh_keys": "GET /api/v1/ssh-keys",
	} {
		t.Run(file, func(t *testing.T) {
			var body any
			readSample(t, "lambda/samples/"+file+".json", &body)
			_, err := o.Encode(&Call{Op: op}, Reply(200, body))
			expect(t, err, "")
		})
	}
}

func TestUnchecked(t *testing.T) {
	u := Unchecked("POST /token", "GET /files/{+path}")
	try(t, u, []trial{
		{"known", "POST", "/token", `{"any":"thing"}`, ""},
		{"with slashes", "GET", "/files/a/b", "", ""},
		{"unknown", "GET", "/token", "", "no GET there"},
		{"no JSON", "POST", "/token", "{", "body"},
	})
	c := trial{method: "GET", path: "/files/a%2Fb/c"}.call(t)
	if err := u.Find(c); err != nil || c.Vars["path"] != "a/b/c" {
		t.Errorf("path is %q: %v", c.Vars["path"], err)
	}
	if ops := u.Operations(); !slices.Equal(ops, []string{"POST /token", "GET /files/{+path}"}) {
		t.Errorf("its operations are %q", ops)
	}
}
