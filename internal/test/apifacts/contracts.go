package apifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Contracts returns the folder of the vendors' API descriptions, ../shared/contracts beside the module. If it is
// missing, the test is skipped, or fails if GPUTRAIN_REQUIRE_SHARED is set. Fakes do not need it.
func Contracts(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for module := dir; ; module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			dir = filepath.Join(module, "..", "shared", "contracts")
			break
		} else if module == filepath.Dir(module) {
			t.Fatalf("no go.mod at or above %s", dir)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SHARED") != "" {
			t.Fatalf("the contracts are missing, and GPUTRAIN_REQUIRE_SHARED is set: %v", err)
		}
		t.Skipf("the contracts are missing, so nothing can be compared with them: %v", err)
	}
	return dir
}

// Read returns a file of the contracts, such as "lambda/samples/launch.json". If it is missing the test fails.
func Read(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Contracts(t), filepath.FromSlash(file)))
	if err != nil {
		t.Fatalf("a contract file is missing: %v", err)
	}
	return b
}

// OpenAPI reads a description of the contracts, with the base path of its first server in every path. Amendments correct
// known mistakes in it.
func OpenAPI(t testing.TB, file string, amendments ...Amendment) map[string]any {
	t.Helper()
	doc := document(t, file)
	for _, amend := range amendments {
		amend(doc)
	}
	servers, _ := doc["servers"].([]any)
	if len(servers) == 0 {
		return doc
	}
	u, err := url.Parse(fmt.Sprint(object(servers[0])["url"]))
	if err != nil {
		t.Fatalf("%s: servers: %v", file, err)
	}
	rename(doc, func(path string) string { return strings.TrimSuffix(u.Path, "/") + path })
	return doc
}

// document reads a file in JSON or YAML.
func document(t testing.TB, file string) map[string]any {
	t.Helper()
	doc, err := parse(Read(t, file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return doc
}

// parse reads an object in JSON or YAML. Its values are those of JSON: 200 as a key becomes "200".
func parse(b []byte) (map[string]any, error) {
	var doc any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		var v any
		if err := yaml.Unmarshal(b, &v); err != nil {
			return nil, err
		}
		b, err := json.Marshal(plain(v))
		if err != nil {
			return nil, err
		}
		return parse(b)
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it holds no object")
	}
	return m, nil
}

// plain gives YAML's objects texts as keys.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for k := range v {
			m[fmt.Sprint(k)] = plain(v[k])
		}
		return m
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}

// object returns v as an object, or an empty one.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
