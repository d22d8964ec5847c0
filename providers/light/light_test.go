package light_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/light"
)

// Every package under providers that has a Config is in package light, except the two that
// link their vendors' clients. For those, New names the right package.
func TestEveryLightProvider(t *testing.T) {
	configs, err := filepath.Glob("../*/config.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range configs {
		name := filepath.Base(filepath.Dir(path))
		if name != "aws" && name != "gcp" && name != "kubernetes" {
			want = append(want, name)
			continue
		}
		if p, err := light.New(name, nil); p != nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "providers/all") {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if got := light.Names(); !slices.Equal(got, want) {
		t.Errorf("names are %q, packages %q", got, want)
	}
	for _, name := range light.Names() {
		if p, err := light.New(name, nil); err != nil || p.Name() != name {
			t.Errorf("New(%q) is %+v, %v", name, p, err)
		}
	}
}

func TestUnknownName(t *testing.T) {
	if p, err := light.New("acme", nil); p != nil || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "there are colab, container") {
		t.Errorf("%v, %v", p, err)
	}
}
