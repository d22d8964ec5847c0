package apifacts

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files with the facts of ../shared/contracts")

// The facts in the repository are those of the vendors' descriptions.
func TestFactsAreTheVendors(t *testing.T) {
	Contracts(t)
	for _, c := range clouds {
		t.Run(c.name+"/"+c.file, func(t *testing.T) {
			has := c.read(t)
			facts, err := c.derived(t, has)
			if err != nil {
				t.Fatalf("%s: %v", c.path(), err)
			}
			compare(t, c.path(), has, facts, format(facts))
		})
	}
	t.Run("runpod/api.graphql", func(t *testing.T) {
		const path = "../../../providers/runpod/testdata/api.graphql"
		has := readFile(t, path)
		facts, err := fromGraphQL(string(Read(t, "runpod/graphql.lifecycle.derived.graphql")), has)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		compare(t, path, tree(t, has), tree(t, facts), []byte(facts))
	})
}

// compare reports the differences between the facts in a file and those of the vendor, or writes the latter.
func compare(t *testing.T, path string, has, facts map[string]any, text []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, d := range diff(has, facts, "") {
		t.Errorf("%s: %s", path, d)
	}
	if !t.Failed() && readFile(t, path) != string(text) {
		t.Errorf("%s: the facts are right, but not in the form that go test . -update writes", path)
	}
}

// The files hold facts only, of calls and what they refer to, also where the vendors' descriptions are not at hand.
func TestFilesHoldFactsOnly(t *testing.T) {
	for _, c := range clouds {
		has := c.read(t)
		facts, err := take(has, callsOf(has))
		if err != nil {
			t.Errorf("%s: %v", c.path(), err)
		}
		for _, d := range diff(has, facts, "") {
			t.Errorf("%s: %s", c.path(), d)
		}
		if readFile(t, c.path()) != string(format(has)) {
			t.Errorf("%s is not in the form that format writes", c.path())
		}
	}
	files, _ := filepath.Glob("../../../providers/*/testdata/api.json")
	for _, file := range files {
		if !slices.ContainsFunc(clouds, func(c cloud) bool { return c.path() == file }) {
			t.Errorf("%s is not in clouds.go", file)
		}
	}
}

func (c cloud) path() string { return "../../../providers/" + c.name + "/testdata/" + c.file }

func (c cloud) read(t *testing.T) map[string]any {
	t.Helper()
	doc, err := parse([]byte(readFile(t, c.path())))
	if err != nil {
		t.Fatalf("%s: %v", c.path(), err)
	}
	return doc
}

func tree(t *testing.T, schema string) map[string]any {
	t.Helper()
	m, err := graphQLTree(schema)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
