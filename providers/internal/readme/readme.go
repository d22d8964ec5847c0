// Package readme compares README's table of providers, and the section "At a glance" of each
// provider's documentation, with their drivers, for each provider's tests.
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

	"github.com/gputrain/gputrain/providers/driver"
)

// Columns are the columns of README's table after the provider's.
var Columns = []string{"GPUs", "spot", "ends itself", "tried against"}

// Facts are the items of "At a glance" in each provider's documentation, in this order.
var Facts = []string{"GPUs", "Spot", "Regions", "Credentials", "Billing", "Private network", "Ends itself", "Host key pinned by", "Tags", "Tried against"}

// A Row holds the facts about a provider in README's table, by column.
type Row map[string]string

// Table reads the table in README, by the providers' names. It looks for README in the folders
// above the test's.
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

// Page reads "At a glance" in doc.go of the test's folder, by item.
func Page(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "// # At a glance\n//\n")
	if !found {
		t.Fatal(`doc.go has no section "At a glance"`)
	}
	page, item := map[string]string{}, 0
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "//"))
		if line == "" {
			break
		}
		if first, ok := strings.CutPrefix(line, "- "); ok {
			name, value, _ := strings.Cut(first, ": ")
			if item == len(Facts) || name != Facts[item] || value == "" {
				t.Fatalf("doc.go has the item %q at a glance: items are %q, in this order", first, Facts)
			}
			page[name] = value
			item++
		} else if item > 0 {
			page[Facts[item-1]] += " " + line
		}
	}
	if item != len(Facts) {
		t.Fatalf("doc.go has %d items at a glance: they are %q", item, Facts)
	}
	return page
}

// Check opens a provider, whose package is the test's, and compares it with its page and
// with README.
func Check(t *testing.T, p driver.Provider) {
	t.Helper()
	d, err := p.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	page := Page(t)
	caps := d.Capabilities()
	begins := func(fact string, truth bool, why string, words ...string) {
		t.Helper()
		if !truth {
			return
		}
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(page[fact], w) }) {
			t.Errorf("doc.go of %s says at a glance, %s: %q: it must begin with %q, as %s", p.Name(), fact, page[fact], words, why)
		}
	}
	begins("Spot", caps.Spot, "Capabilities.Spot is true", "yes")
	begins("Spot", !caps.Spot, "Capabilities.Spot is false", "no")
	begins("Private network", caps.PrivateNetwork, "Capabilities.PrivateNetwork is true", "yes")
	begins("Private network", !caps.PrivateNetwork, "Capabilities.PrivateNetwork is false by default", "no", "with ")
	begins("Tags", caps.Tags, "Capabilities.Tags is true", "yes")
	begins("Tags", !caps.Tags, "Capabilities.Tags is false", "no")
	begins("Host key pinned by", caps.HostKeys == driver.HostKeyInjected, "the key is injected", "the pool's own key")
	begins("Host key pinned by", caps.HostKeys == driver.HostKeyPublished, "the key is published", "the cloud's word")
	begins("Host key pinned by", caps.HostKeys == driver.HostKeyConfigured, "the key is configured", "the user's word")
	begins("Host key pinned by", caps.HostKeys == driver.HostKeyFirstContact, "the first contact decides", "first contact")
	scripter, ends := d.(driver.Scripter)
	ends = ends && scripter.Scripts(driver.Instance{ID: "i1"}).SelfDestruct != ""
	begins("Ends itself", ends, "Scripts has a SelfDestruct", "yes", "with ")
	begins("Ends itself", !ends, "Scripts has no SelfDestruct", "no")
	if verb := caps.EndsBilling; verb != "" && !caps.Free && !strings.Contains(page["Billing"], verb) {
		t.Errorf("doc.go of %s says at a glance, Billing: %q: Capabilities.EndsBilling is %s", p.Name(), page["Billing"], verb)
	}
	named(t, p, page)
	row := Table(t)[p.Name()]
	if row == nil {
		t.Fatalf("README's table has no %s", p.Name())
	}
	for column, fact := range map[string]string{"spot": "Spot", "ends itself": "Ends itself"} {
		if first(row[column]) != first(page[fact]) {
			t.Errorf("README says of %s, under %s, %q, and its page %q", p.Name(), column, row[column], page[fact])
		}
	}
}

// first returns the first word of a text.
func first(text string) string { return strings.Trim(strings.Fields(text + " .")[0], ":;,.") }

var (
	variable = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\b`)
	field    = regexp.MustCompile(`\[Config\]\.([A-Za-z0-9]+)`)
)

// named checks that the variables and fields that a page names exist.
func named(t *testing.T, p driver.Provider, page map[string]string) {
	t.Helper()
	var source strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "doc.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, word := range variable.FindAllString(page["Credentials"], -1) {
		if !strings.Contains(source.String(), word) {
			t.Errorf("doc.go of %s says that it reads %s, which its package does not mention", p.Name(), word)
		}
	}
	for _, fact := range Facts {
		for _, word := range field.FindAllStringSubmatch(page[fact], -1) {
			if _, ok := reflect.TypeOf(p).FieldByName(word[1]); !ok {
				t.Errorf("doc.go of %s says at a glance, %s, [Config].%s: its Config has no such field", p.Name(), fact, word[1])
			}
		}
	}
}
