package accelerators

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gputrain/gputrain/internal/test/apifacts"
)

// A place finds the names of devices in a cloud's contracts: the values of
// these keys, in an answer, an example or an enum, and all texts that match
// looks.
type place struct {
	keys  []string
	looks *regexp.Regexp // with the name as its group
}

var places = map[string]place{
	"aws":           {keys: []string{"AcceleratorName"}},
	"gcp":           {looks: regexp.MustCompile(`^(?:COMMITTED_|PREEMPTIBLE_)?((?:NVIDIA|TPU)_.+?)(?:_GPUS)?$`)},
	"hyperstack":    {keys: []string{"gpu", "model", "flavor_name"}, looks: regexp.MustCompile(`^(n\d-.+x\d+.*)$`)},
	"jarvislabs":    {keys: []string{"gpu_type"}},
	"lambda":        {keys: []string{"gpu_description"}, looks: regexp.MustCompile(`^((?:gpu|cpu)_\d+x_\w+)$`)},
	"massedcompute": {looks: regexp.MustCompile(`^((?:gpu|cpu)_\d+x_\w+)$`)},
	"novita":        {keys: []string{"productName", "productId", "availableGpuType"}},
	"runpod":        {keys: []string{"gpuTypeId", "gpuTypeIds", "GPUTypeId"}},
	"scaleway":      {keys: []string{"gpu_name", "commercial_type", "compatible_commercial_types"}},
	"tensordock":    {keys: []string{"v0Name", "displayName"}, looks: regexp.MustCompile(`^([a-z0-9]+(?:-[a-z0-9]+)?-\d+gb)$`)},
	"vastai":        {keys: []string{"gpu_name"}},
	"verda":         {keys: []string{"instance_type", "model"}, looks: regexp.MustCompile(`^(\d+[A-Z]\w+(?:\.\d+S)?\.\d+V|\d+x .+)$`)},
	"vultr":         {keys: []string{"gpu_type"}, looks: regexp.MustCompile(`^(vcg-.+|vbm-.+-gpu)$`)},
}

// ParseFrom knows every name in the contracts, or cloudNames has it as refused.
func TestContracts(t *testing.T) {
	dir := apifacts.Contracts(t)
	for cloud, p := range places {
		t.Run(cloud, func(t *testing.T) {
			names := map[string]bool{}
			eachDocument(t, filepath.Join(dir, cloud), func(doc any) { p.collect("", doc, names) })
			if len(names) == 0 {
				t.Fatal("its contracts name no device: look for them elsewhere")
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				isRefused := func(n cloudName) bool { return n.cloud == cloud && n.name == name && n.refused != "" }
				if _, err := ParseFrom(cloud, name); err != nil && !slices.ContainsFunc(listed(t), isRefused) {
					t.Error(err)
				}
			}
		})
	}
}

// eachDocument reads every JSON and YAML file in a folder.
func eachDocument(t *testing.T, dir string, each func(any)) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var doc any
		if err := yaml.Unmarshal(b, &doc); err != nil { // JSON is YAML
			t.Errorf("%s: %v", path, err)
		}
		each(doc)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// collect adds the names in the value of a key. The keywords of a schema for
// examples and possible values count as the key above them.
func (p place) collect(key string, v any, names map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, v := range v {
			p.take("", k, names)
			if slices.Contains([]string{"enum", "example", "examples", "default", "items", "schema"}, k) {
				k = key
			}
			p.collect(k, v, names)
		}
	case []any:
		for _, v := range v {
			p.collect(key, v, names)
		}
	case string:
		p.take(key, v, names)
	}
}

// take adds a text if it is a name. A text that repeats its key, as examples
// do, is none.
func (p place) take(key, text string, names map[string]bool) {
	if slices.Contains(p.keys, key) && text != key && !strings.Contains(text, "\n") {
		names[text] = true
	}
	if p.looks == nil {
		return
	}
	if m := p.looks.FindStringSubmatch(text); m != nil {
		names[m[1]] = true
	}
}
