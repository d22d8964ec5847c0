// Package readme holds README's table of providers to what their drivers say of themselves,
// for each provider's tests.
package readme

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
)

// Columns are the table's, after the provider's own.
var Columns = []string{"GPUs", "spot", "regions", "auth", "billing", "private network", "ends itself", "host key pinned by", "tags", "verified against"}

// A Row is what the table says of a provider, by column.
type Row map[string]string

// Table reads the table out of README, by the providers' names. It looks for README in the
// folders above the test's.
func Table(t testing.TB) map[string]Row {
	t.Helper()
	var text []byte
	for dir := ".."; text == nil; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if text, err = os.ReadFile(filepath.Join(dir, "README.md")); err != nil {
				t.Fatal(err)
			}
		} else if abs, _ := filepath.Abs(dir); abs == string(filepath.Separator) {
			t.Fatal("no go.mod above this folder")
		}
	}
	rows := map[string]Row{}
	heading := "| provider | " + strings.Join(Columns, " | ") + " |"
	_, table, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("README has no table with the heading %s", heading)
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) < 2 {
			break
		}
		name, ok := strings.CutPrefix(strings.Trim(cells[0], "|` "), "providers/")
		if !ok || len(cells) != len(Columns)+1 || rows[name] != nil {
			t.Fatalf("README's table has the odd row %s", line)
		}
		rows[name] = Row{}
		for i, column := range Columns {
			rows[name][column] = strings.TrimSuffix(cells[i+1], " |")
		}
	}
	return rows
}

// Check opens a provider, whose package is the test's, and compares.
func Check(t *testing.T, p gputrain.Provider) {
	t.Helper()
	d, err := p.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	row := Table(t)[p.Name()]
	if row == nil {
		t.Fatalf("README's table has no %s", p.Name())
	}
	caps := d.Capabilities()
	begins := func(column string, truth bool, why string, words ...string) {
		t.Helper()
		if !truth {
			return
		}
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(row[column], w) }) {
			t.Errorf("README says of %s, under %s, %q: it must begin with %q, as %s", p.Name(), column, row[column], words, why)
		}
	}
	begins("spot", caps.Spot, "Capabilities.Spot is true", "yes")
	begins("spot", !caps.Spot, "Capabilities.Spot is false", "no")
	begins("private network", caps.PrivateNetwork, "Capabilities.PrivateNetwork is true", "yes")
	begins("private network", !caps.PrivateNetwork, "Capabilities.PrivateNetwork is false by default", "no", "with ")
	begins("tags", caps.Tags, "Capabilities.Tags is true", "yes")
	begins("tags", !caps.Tags, "Capabilities.Tags is false", "no")
	begins("host key pinned by", caps.HostKeys == gputrain.HostKeyInjected, "the key is injected", "the pool's own key")
	begins("host key pinned by", caps.HostKeys == gputrain.HostKeyPublished, "the key is published", "the cloud's word")
	begins("host key pinned by", caps.HostKeys == gputrain.HostKeyConfigured, "the key is configured", "the user's word")
	begins("host key pinned by", caps.HostKeys == gputrain.HostKeyFirstContact, "the first contact decides", "first contact")
	_, ends := d.(gputrain.SelfDestructor)
	begins("ends itself", ends, "the driver is a SelfDestructor", "yes", "with ")
	begins("ends itself", !ends, "the driver is no SelfDestructor", "no")
	if verb := caps.EndsBilling; verb != "" && !caps.Free && !strings.Contains(row["billing"], "`"+verb+"`") {
		t.Errorf("README says of %s, under billing, %q: Capabilities.EndsBilling is %s", p.Name(), row["billing"], verb)
	}
	named(t, p, row)
}

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	variable = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)
)

// named looks whether the variables and fields exist that a row names.
func named(t *testing.T, p gputrain.Provider, row Row) {
	t.Helper()
	var source strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, word := range quoted.FindAllStringSubmatch(row["auth"], -1) {
		if variable.MatchString(word[1]) && !strings.Contains(source.String(), word[1]) {
			t.Errorf("README says of %s that it reads %s, which its package does not mention", p.Name(), word[1])
		}
	}
	for _, column := range []string{"regions", "spot", "private network"} {
		for _, word := range quoted.FindAllStringSubmatch(row[column], -1) {
			if _, ok := reflect.TypeOf(p).FieldByName(word[1]); !ok {
				t.Errorf("README says of %s, under %s, `%s`: its Config has no such field", p.Name(), column, word[1])
			}
		}
	}
}
