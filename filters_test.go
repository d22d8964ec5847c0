package gputrain_test

import (
	"cmp"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// gpuhunt are the filters of gpuhunt's QueryFilter, and the columns of its catalogue that it has no
// filter for: https://github.com/dstackai/gpuhunt/blob/main/src/gpuhunt/_internal/models.py
var gpuhunt = []string{
	"allowed_flags", "cpu_arch", "gpu_name", "gpu_vendor", "instance_name", "location", "max_compute_capability", "max_cpu", "max_disk_size", "max_gpu_count",
	"max_gpu_memory", "max_memory", "max_price", "max_total_gpu_memory", "min_compute_capability", "min_cpu", "min_disk_size", "min_gpu_count", "min_gpu_memory",
	"min_memory", "min_price", "min_total_gpu_memory", "provider", "spot",
}

// choosers are the functions of package accelerators that the table has, each with arguments that
// set all its conditions.
var choosers = map[string]func() accelerators.Accelerator{
	"Parse":              func() accelerators.Accelerator { a, _ := accelerators.Parse("A100"); return a },
	"Exact":              func() accelerators.Accelerator { return accelerators.Exact("x") },
	"Any":                func() accelerators.Accelerator { return accelerators.Any() },
	"Vendor":             func() accelerators.Accelerator { return accelerators.Any(accelerators.Vendor("AMD")) },
	"Count":              func() accelerators.Accelerator { return accelerators.Any(accelerators.Count(2)) },
	"AtLeast":            func() accelerators.Accelerator { return accelerators.Any(accelerators.AtLeast(2)) },
	"CountBetween":       func() accelerators.Accelerator { return accelerators.Any(accelerators.CountBetween(2, 4)) },
	"Memory":             func() accelerators.Accelerator { return accelerators.Any(accelerators.Memory(40)) },
	"MemoryBetween":      func() accelerators.Accelerator { return accelerators.Any(accelerators.MemoryBetween(40, 80)) },
	"TotalMemory":        func() accelerators.Accelerator { return accelerators.Any(accelerators.TotalMemory(40)) },
	"TotalMemoryBetween": func() accelerators.Accelerator { return accelerators.Any(accelerators.TotalMemoryBetween(40, 80)) },
	"Capability":         func() accelerators.Accelerator { return accelerators.Any(accelerators.Capability(8)) },
	"CapabilityBetween":  func() accelerators.Accelerator { return accelerators.Any(accelerators.CapabilityBetween(8, 9)) },
	"Form":               func() accelerators.Accelerator { return accelerators.Any(accelerators.Form(accelerators.SXM)) },
}

// README's table of filters has every filter of gpuhunt and of a spec, and no name that does not
// exist.
func TestTableOfFilters(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| what | gpuhunt | gputrain |\n|---|---|---|\n")
	if !found {
		t.Fatal("README has no table of filters")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`([A-Za-z_.]+)`")
	var theirs []string
	fields, functions := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 3 {
			t.Fatalf("the row %q has %d cells", line, len(cells))
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			theirs = append(theirs, m[1])
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if name, ok := strings.CutPrefix(m[1], "Spec."); ok {
				fields[name] = true
			} else if name, ok := strings.CutPrefix(m[1], "accelerators."); ok {
				functions[name] = true
			}
		}
	}
	if slices.Sort(theirs); !slices.Equal(theirs, gpuhunt) {
		t.Errorf("it has of gpuhunt's filters\n%q\nwant\n%q", theirs, gpuhunt)
	}
	spec := reflect.TypeFor[gputrain.Spec]()
	for name := range fields {
		if _, ok := spec.FieldByName(name); !ok {
			t.Errorf("it has Spec.%s, which does not exist", name)
		}
	}
	asked := map[string]string{"PrivateNetwork": "Network"} // fields of Query that have another name in Spec
	for _, f := range reflect.VisibleFields(reflect.TypeFor[driver.Query]()) {
		name := cmp.Or(asked[f.Name], f.Name)
		if other := []string{"Nodes", "TTL", "Mounts", "Image", "Baked"}; !fields[name] && !slices.Contains(other, name) {
			t.Errorf("it lacks Spec.%s, with which a driver is asked for offers", name)
		}
	}
	set := map[string]bool{}
	for name := range functions {
		choose := choosers[name]
		if choose == nil {
			t.Errorf("it has accelerators.%s, which this test does not know", name)
			continue
		}
		a, nothing := reflect.ValueOf(choose()), reflect.ValueOf(accelerators.Accelerator{})
		for i := range a.NumField() {
			if !a.Field(i).Equal(nothing.Field(i)) {
				set[a.Type().Field(i).Name] = true
			}
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[accelerators.Accelerator]()) {
		if !set[f.Name] {
			t.Errorf("it lacks what sets Accelerator.%s", f.Name)
		}
	}
	for name := range choosers {
		if !functions[name] {
			t.Errorf("it lacks accelerators.%s", name)
		}
	}
}
