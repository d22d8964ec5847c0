package fakecloud

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Contracts returns the folder of the vendors' API descriptions, ../shared/contracts beside the module. If it is
// missing, the test is skipped, or fails if GPUTRAIN_REQUIRE_SHARED is set.
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
		t.Skipf("the contracts are missing, so nothing can be checked against them: %v", err)
	}
	return dir
}

// read returns a file of the contracts, such as "lambda/samples/launch.json", or of the test's own folder:
// "./testdata/images.json". If it is missing the test fails.
func read(t testing.TB, file string) []byte {
	t.Helper()
	path := filepath.FromSlash(file)
	if !strings.HasPrefix(file, "./") {
		path = filepath.Join(Contracts(t), path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("a contract file is missing: %v", err)
	}
	return b
}

// ReadSample decodes a JSON file of the contracts into v, such as "lambda/samples/launch.json": an answer of the
// vendor.
func ReadSample(t testing.TB, file string, v any) {
	t.Helper()
	if err := json.Unmarshal(read(t, file), v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// described holds the Contract of each file: to read a description takes longer than most tests.
var described sync.Map

// shared returns the Contract that a file describes, for all fakes of this program. It calls read if the file has not
// been read yet.
func shared(t testing.TB, file string, read func() (Contract, error)) Contract {
	t.Helper()
	if c, ok := described.Load(file); ok {
		return c.(Contract)
	}
	c, err := read()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	described.Store(file, c)
	return c
}

// document reads a description in JSON or YAML.
func document(t testing.TB, file string) map[string]any {
	t.Helper()
	b := read(t, file)
	doc, err := decodeJSON(b)
	if filepath.Ext(file) != ".json" {
		err = yaml.Unmarshal(b, &doc)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	m, ok := plain(doc).(map[string]any)
	if !ok {
		t.Fatalf("%s holds no object", file)
	}
	return m
}

// plain converts YAML values to JSON values: 200 as a key becomes "200".
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
