package fakecloud

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/apifacts"
)

// descriptions are the OpenAPI files of the contracts, each of which must load.
var descriptions = []string{
	"colab/ngrok-agent.derived.yaml",
	"hyperstack/hyperstack-infrahub-v1.vendor.openapi.yaml",
	"hyperstack/hyperstack-v1.lifecycle.derived.openapi.json",
	"jarvislabs/jarvislabs-lifecycle.derived.yaml",
	"lambda/lambda-lifecycle-3.0.derived.json",
	"lambda/lambda-openapi-1.5.3.generator-normalised.yaml",
	"lambda/lambda-openapi-1.8.3.vendor.json",
	"massedcompute/massedcompute-vm-1.0.0.repaired.yaml",
	"novita/novita-v1-lifecycle.derived.yaml",
	"novita/novita-v1.third-party-php-workx.yaml",
	"runpod/rest-v1.openapi.json",
	"runpod/rest-v2.lifecycle.derived.openapi.json",
	"runpod/rest-v2.lifecycle.derived.openapi30.json",
	"runpod/rest-v2.openapi.json",
	"scaleway/scaleway.iam.v1alpha1.vendor.openapi.yml",
	"scaleway/scaleway.instance.v1.vendor.openapi.yml",
	"scaleway/scaleway.lifecycle.derived.openapi.json",
	"scaleway/scaleway.marketplace.v2.vendor.openapi.yml",
	"tensordock/tensordock-v2.lifecycle.derived.openapi.yaml",
	"tensordock/third-party/tensordock-authorization-api-openapi.yml",
	"tensordock/third-party/tensordock-hostnodes-api-openapi.yml",
	"tensordock/third-party/tensordock-instances-api-openapi.yml",
	"tensordock/third-party/tensordock-secrets-api-openapi.yml",
	"tensordock/third-party/tensordock-v0-marketplace-openapi.yml",
	"vastai/vast.lifecycle.derived.openapi.yaml",
	"vastai/vast.openapi.yaml",
	"verda/verda-v1.lifecycle.derived.openapi.json",
	"vultr/vultr-v2.lifecycle.derived.openapi.json",
	"vultr/vultr-v2.vendor-2023.openapi.json",
}

// Every description loads, and every schema in it compiles.
func TestDescriptionsLoad(t *testing.T) {
	apifacts.Contracts(t)
	for _, file := range descriptions {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			compiles(t, vendors(t, file))
		})
	}
}

// vendors reads a description of the vendors'.
func vendors(t *testing.T, file string, amendments ...apifacts.Amendment) *openAPI {
	t.Helper()
	o, err := newOpenAPI(apifacts.OpenAPI(t, file, amendments...))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

func readSample(t *testing.T, file string, v any) {
	t.Helper()
	if err := json.Unmarshal(apifacts.Read(t, file), v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// So do the descriptions of all fakes.
func TestFactsLoad(t *testing.T) {
	files, _ := filepath.Glob("../../../providers/*/testdata/api.json")
	if len(files) == 0 {
		t.Fatal("there are none")
	}
	for _, file := range files {
		if strings.Contains(file, "/aws/") {
			EC2(t, file)
			continue
		}
		compiles(t, OpenAPI(t, file).(*openAPI))
	}
}

// So does Google's, which is converted.
func TestGooglesDescriptionLoads(t *testing.T) {
	o, err := newOpenAPI(apifacts.Google(t, "gcp/gce-compute-v1.trimmed.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.has) != 43 || o.has["compute.instances.insert"] == nil {
		t.Errorf("%d methods", len(o.has))
	}
	compiles(t, o)
}

// compiles checks that every schema of a description compiles.
func compiles(t *testing.T, o *openAPI) {
	t.Helper()
	for name, op := range o.has {
		for _, p := range op.parameters {
			if p.at == nil {
				continue
			}
			if _, err := o.schema(inRequest, p.at...); err != nil {
				t.Errorf("%s: parameter %s: %v", name, p.name, err)
			}
		}
		compileAll(t, o, inRequest, op.body, op.bodyAt)
		for status := range op.responses {
			r, at, err := o.resolve(op.responses[status], append(op.at[:3:3], "responses", status))
			if err != nil {
				t.Errorf("%s: %s: %v", name, status, err)
			}
			compileAll(t, o, inAnswer, r, at)
		}
	}
}

func compileAll(t *testing.T, o *openAPI, d direction, body map[string]any, at []string) {
	t.Helper()
	for media, m := range object(body["content"]) {
		if object(m)["schema"] == nil {
			continue
		}
		if _, err := o.schema(d, append(at[:len(at):len(at)], "content", media, "schema")...); err != nil {
			t.Errorf("%v %s: %v", at, media, err)
		}
	}
}

var isOpenAPI = regexp.MustCompile(`(?m)^\s*"?openapi"?\s*:`)

// The list has every OpenAPI file of the contracts.
func TestEveryDescriptionIsListed(t *testing.T) {
	dir := apifacts.Contracts(t)
	listed := map[string]bool{}
	for _, file := range descriptions {
		listed[file] = true
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(path, "samples/") {
			return err
		}
		switch filepath.Ext(path) {
		case ".json", ".yaml", ".yml":
			if isOpenAPI.Match(apifacts.Read(t, path)) && !listed[path] {
				t.Errorf("%s is not loaded by any test", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A sample is a request and its answer, written to match a description.
type sample struct {
	Method, Path string
	Request      any
	ContentType  string `json:"content_type"`
	Status       int
	Response     any
}

// sampleFields are fields that the samples have and the descriptions lack.
var sampleFields = map[string][]apifacts.Amendment{
	"vultr": {
		apifacts.AllowFields("/components/schemas/instance", "v6_main_ip", "v6_network", "v6_network_size"),
		apifacts.AllowFields("/paths/~1plans-metal/get/responses/200/content/application~1json/schema", "plans_metal"),
	},
	"scaleway": {apifacts.AllowFields("/components/schemas/scaleway.instance.v1.ListServersTypesResponse/properties/servers/additionalProperties/properties/capabilities",
		"hot_snapshots_local_volume", "placement_groups", "private_network")},
}

// bases are the base paths that the samples omit.
var bases = map[string]string{"hyperstack": "/v1", "vultr": "/v2"}

func TestSamples(t *testing.T) {
	for cloud, file := range map[string]string{
		"hyperstack": "hyperstack/hyperstack-v1.lifecycle.derived.openapi.json",
		"scaleway":   "scaleway/scaleway.lifecycle.derived.openapi.json",
		"verda":      "verda/verda-v1.lifecycle.derived.openapi.json",
		"vultr":      "vultr/vultr-v2.lifecycle.derived.openapi.json",
	} {
		o := vendors(t, file, sampleFields[cloud]...)
		files, _ := filepath.Glob(filepath.Join(apifacts.Contracts(t), cloud, "samples", "*.json"))
		if len(files) == 0 {
			t.Errorf("%s has no samples", cloud)
		}
		for _, f := range files {
			t.Run(cloud+"/"+filepath.Base(f), func(t *testing.T) {
				var s sample
				readSample(t, cloud+"/samples/"+filepath.Base(f), &s)
				u, err := url.Parse(s.Path)
				if err != nil {
					t.Fatal(err)
				}
				c := &Call{Method: s.Method, Path: bases[cloud] + u.EscapedPath(), Query: u.Query(), Header: http.Header{}}
				if s.Request != nil {
					c.Body = bodyOf(s.Request)
					c.Header.Set("Content-Type", s.ContentType)
					if s.ContentType == "" {
						c.Header.Set("Content-Type", "application/json")
					}
				}
				if err := o.Find(c); err != nil {
					t.Fatal(err)
				}
				if err := o.Check(c); err != nil {
					t.Error("request:", err)
				}
				if _, err := o.Encode(c, Reply(s.Status, s.Response)); err != nil {
					t.Error("answer:", err)
				}

				// One extra letter in any top-level field is detected.
				for name, body := range misspelt(s.Request) {
					c.Body = bodyOf(body)
					if err := o.Check(c); err == nil {
						t.Errorf("request: %sx instead of %s is allowed", name, name)
					}
				}
				for name, body := range misspelt(s.Response) {
					if _, err := o.Encode(c, Reply(s.Status, body)); err == nil {
						t.Errorf("answer: %sx instead of %s is allowed", name, name)
					}
				}
			})
		}
	}
}

// misspelt returns, for each field of an object, a copy with that field misspelt.
func misspelt(v any) map[string]any {
	all := map[string]any{}
	for name, value := range object(v) {
		wrong := maps.Clone(object(v))
		delete(wrong, name)
		wrong[name+"x"] = value
		all[name] = wrong
	}
	return all
}

func bodyOf(v any) []byte {
	if s, ok := v.(string); ok {
		return []byte(s)
	}
	b, _ := json.Marshal(v)
	return b
}
