package all_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/all"
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/light"
	"github.com/gputrain/gputrain/providers/runpod"
	"github.com/gputrain/gputrain/providers/ssh"
	"github.com/gputrain/gputrain/providers/vastai"
)

// Every package under providers that has a Config is in package all.
func TestEveryProvider(t *testing.T) {
	configs, err := filepath.Glob("../*/config.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range configs {
		want = append(want, filepath.Base(filepath.Dir(path)))
	}
	if got := all.Names(); !slices.Equal(got, want) {
		t.Errorf("names are %q, packages %q", got, want)
	}
	if got := slices.Sorted(slices.Values(slices.Concat(light.Names(), light.Elsewhere()))); !slices.Equal(got, want) {
		t.Errorf("package light has %q, of %q", got, want)
	}
	for _, name := range all.Names() {
		p, err := all.New(name, nil)
		if err != nil || p.Name() != name || !reflect.ValueOf(p).IsZero() {
			t.Errorf("New(%q) is %+v, %v", name, p, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name, settings string // as JSON
		want           driver.Provider
	}{
		{"vastai", `{"min_cuda": 12.4, "Geolocation": ["EU"], "instance-timeout": "90s", "APIKey": "env://KEY", "allow_unverified": true}`,
			vastai.Config{MinCUDA: 12.4, Geolocation: []string{"EU"}, InstanceTimeout: 90 * time.Second, APIKey: "env://KEY", AllowUnverified: true}},
		{"runpod", `{"cloud": "community", "volume_gb": -1, "Endpoint": "http://127.0.0.1:1"}`,
			runpod.Config{Cloud: runpod.Community, VolumeGB: -1, Endpoint: "http://127.0.0.1:1"}},
		{"ssh", `{"hosts": [{"addr": "a:22"}, {"addr": "b", "user": "me"}]}`, ssh.Config{Hosts: []ssh.Host{{Addr: "a:22"}, {Addr: "b", User: "me"}}}},
		{"colab", `{"endpoint": {}}`, colab.Config{}},
	} {
		var settings map[string]any
		if err := json.Unmarshal([]byte(tt.settings), &settings); err != nil {
			t.Fatal(err)
		}
		if got, err := all.New(tt.name, settings); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s %s is %+v, %v", tt.name, tt.settings, got, err)
		}
	}
}

func TestBadSettings(t *testing.T) {
	const secret = "sk-ant-123456"
	for _, tt := range []struct {
		name     string
		settings map[string]any
		says     []string
	}{
		{"vast", nil, []string{`there is no provider "vast"`, "vastai"}},
		{"vastai", map[string]any{"MinCuda": 12, "Colour": "red"}, []string{`there is no setting "Colour"`, "MinCUDA"}},
		{"vastai", map[string]any{"min_cuda": 12.0, "MinCUDA": 12.1}, []string{"are the same setting"}},
		{"vastai", map[string]any{"APIKey": []any{secret}}, []string{"APIKey: it must be a text"}},
		{"vastai", map[string]any{"APIKey": map[string]any{"key": secret}}, []string{"APIKey: it must be a text"}},
		{"vastai", map[string]any{"HTTPClient": map[string]any{}}, []string{"Config.HTTPClient"}},
		{"vastai", map[string]any{"InstanceTimeout": "soon"}, []string{"InstanceTimeout: it must be a duration"}},
		{"runpod", map[string]any{"VolumeGB": 10.5}, []string{"VolumeGB: it must be a whole number"}},
		{"runpod", map[string]any{"VolumeGB": 1e300}, []string{"VolumeGB: it must be a whole number"}},
		{"runpod", map[string]any{"Ports": "8888/http", "BidMultiplier": "2"}, []string{"BidMultiplier: it must be a number"}},
		{"ssh", map[string]any{"Hosts": []any{map[string]any{"Address": "a"}}}, []string{"Hosts: it must be a list"}},
	} {
		p, err := all.New(tt.name, tt.settings)
		if p != nil || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s %v: %v, %v", tt.name, tt.settings, p, err)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q does not say %q", err, s)
			}
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}
